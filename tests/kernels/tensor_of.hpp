// Dense tensors over memory of a test.
#pragma once

#include <initializer_list>

#include "catalogue/problem.hpp"
#include "tests/run.hpp"

namespace ws::test {

template <class T>
Tensor tensor_of(Buffer<T>& buffer, std::initializer_list<int64_t> shape) {
  Tensor tensor = Tensor::dense(kDType<T>, shape);
  tensor.data = buffer.data();
  return tensor;
}

}  // namespace ws::test
