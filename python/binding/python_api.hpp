// What the quick calls (ffi.cpp) need of CPython, by its stable ABI. Declared here, so that
// building the library takes no headers of Python's; weak, since programs in C load the library,
// too.
#pragma once

#include <cstdint>
#include <utility>

namespace ws::python {

struct Object {
  intptr_t references;
  Object* type;
};

struct Method {
  const char* name;
  Object* (*function)(Object* self, Object* const* arguments, intptr_t count);
  int flags;
  const char* doc;
};
inline constexpr int kFastCall = 0x80;  // METH_FASTCALL: the arguments lie in an array

// NOLINTBEGIN: Python's names
extern "C" {
[[gnu::weak]] extern Object _Py_NoneStruct;
[[gnu::weak]] extern Object _Py_TrueStruct;
[[gnu::weak]] extern Object _Py_FalseStruct;
[[gnu::weak]] extern Object PyLong_Type;
[[gnu::weak]] extern Object PyFloat_Type;
[[gnu::weak]] extern Object PyTuple_Type;
[[gnu::weak]] extern Object PyList_Type;
[[gnu::weak]] void Py_IncRef(Object*);
[[gnu::weak]] void Py_DecRef(Object*);
[[gnu::weak]] int PyType_IsSubtype(Object* type, Object* of);
[[gnu::weak]] long long PyLong_AsLongLongAndOverflow(Object*, int* overflow);
[[gnu::weak]] Object* PyLong_FromLongLong(long long);
[[gnu::weak]] double PyFloat_AsDouble(Object*);
[[gnu::weak]] Object* PyTuple_New(intptr_t size);
[[gnu::weak]] int PyTuple_SetItem(Object*, intptr_t at, Object* taken);
[[gnu::weak]] intptr_t PySequence_Size(Object*);
[[gnu::weak]] Object* PySequence_GetItem(Object*, intptr_t at);
[[gnu::weak]] Object* PyObject_Vectorcall(Object* callable, Object* const* arguments, size_t count,
                                          Object* names);
[[gnu::weak]] Object* PyCFunction_NewEx(Method*, Object* self, Object* module);
[[gnu::weak]] Object* PyCapsule_New(void*, const char* name, void (*destructor)(Object*));
[[gnu::weak]] void* PyCapsule_GetPointer(Object*, const char* name);
[[gnu::weak]] void PyErr_Clear();
[[gnu::weak]] void* PyEval_SaveThread();
[[gnu::weak]] void PyEval_RestoreThread(void*);
}
// NOLINTEND

// A reference that is given back.
class Owned {
 public:
  Owned() = default;
  explicit Owned(Object* object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (object_ != nullptr) Py_DecRef(object_);
  }

  Object* get() const { return object_; }
  Object* release() { return std::exchange(object_, nullptr); }

 private:
  Object* object_ = nullptr;
};

inline Object* shared(Object& object) {
  Py_IncRef(&object);
  return &object;
}

inline bool is_a(const Object& object, Object& type) {
  return object.type == &type || PyType_IsSubtype(object.type, &type) != 0;
}

// While it lives other threads may run Python.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() { PyEval_RestoreThread(state_); }

 private:
  void* state_;
};

}  // namespace ws::python
