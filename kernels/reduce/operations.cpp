// What the operations take, and the loops that a call becomes.
#include "kernels/reduce/operations.hpp"

#include <algorithm>
#include <cmath>

namespace ws::reduce {
namespace {

// Which dimensions a call reduces, a bit each. Throws where `dim` names none of the tensor's.
class Reduced {
 public:
  explicit Reduced(const Problem& problem) {
    const Tensor& x = problem.tensor(0);
    bits_ = (1U << x.rank) - 1;
    const Value& dim = problem.attribute("dim");
    if (dim.is_absent() || dim.as_dims().count == 0) return;
    bits_ = 0;
    const int rank = std::max(x.rank, 1);  // torch gives a single element a dimension to name
    for (const int d : dim.as_dims()) {
      const int at = d < 0 ? d + rank : d;
      require(at >= 0 && at < rank, problem.operation->name, ": dim ", d, " of a tensor of rank ",
              x.rank, ": from ", -rank, " to ", rank - 1);
      require((bits_ >> at & 1) == 0, problem.operation->name, ": dim names dimension ", at,
              " twice");
      bits_ |= 1U << at;
    }
  }
  bool has(int d) const { return (bits_ >> d & 1) != 0; }

 private:
  unsigned bits_ = 0;
};

void infer_output(Problem& problem, DType dtype) {
  const Tensor& x = problem.tensor(0);
  require(problem.operation->dtypes.has(x.dtype), problem.operation->name, " takes ",
          to_string(problem.operation->dtypes), ", not ", x);
  const Reduced reduced(problem);
  const bool keep = problem.flag("keepdim");
  std::array<int64_t, kMaxRank> shape{};
  size_t rank = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (!reduced.has(d)) {
      shape[rank++] = x.extent(d);
    } else if (keep) {
      shape[rank++] = 1;
    }
  }
  problem.tensor(1) = Tensor::dense(dtype, {shape.data(), rank});
}

void require_one_dim(const Problem& problem) {
  const Value& dim = problem.attribute("dim");
  require(dim.is_absent() || dim.as_dims().count == 1, problem.operation->name,
          " reduces one dimension, or all: dim names ", static_cast<int>(dim.as_dims().count));
}

// Of nothing there is no maximum.
void require_elements(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  const Reduced reduced(problem);
  for (int d = 0; d < x.rank; ++d) {
    require(!reduced.has(d) || x.extent(d) != 0, problem.operation->name, " of ", x, ": dimension ",
            d, " is reduced and has no elements");
  }
}

// e4m3 and e5m2 have too few digits for what is computed of many.
DType computed(DType dtype) { return kFp8.has(dtype) ? DType::kF32 : dtype; }

// Of sum and prod, which take `dtype`.
DType summed(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  const Value& chosen = problem.attribute("dtype");
  if (chosen.is_absent()) return kIntegers.has(x.dtype) ? DType::kI64 : computed(x.dtype);
  constexpr std::array kChosen = {DType::kF32, DType::kI32, DType::kI64};
  const DType dtype = kChosen[static_cast<size_t>(chosen.as_choice())];
  const bool holds = is_float(dtype) ? is_float(x.dtype) && x.dtype != DType::kF64
                                     : kIntegers.has(x.dtype) && size_of(x.dtype) <= size_of(dtype);
  require(holds, problem.operation->name, ": dtype ", kSumDTypes[chosen.as_choice()],
          " does not hold each element of ", x);
  return dtype;
}

Reduction reduction_of(const Problem& problem, bool any_order) {
  const Tensor& x = problem.tensor(0);
  const Tensor& y = problem.tensor(1);
  const Reduced is_reduced(problem);
  const bool keep = problem.flag("keepdim");
  Reduction call;
  call.inputs[0] = x.data;
  call.output = y.data;
  call.dtype = x.dtype;
  call.output_dtype = y.dtype;
  std::array<Loop, kMaxRank> reduced;
  size_t loops = 0;
  for (int d = 0, of_y = 0; d < x.rank; ++d) {
    const int64_t extent = x.extent(d);
    if (is_reduced.has(d)) {
      call.count *= extent;
      if (extent != 1) reduced[loops++] = {extent, {x.stride(d), 0}};
      of_y += keep ? 1 : 0;
    } else {
      call.outputs *= extent;
      if (extent != 1) {
        append(call.kept, call.kept_loops, {extent, {x.stride(d), y.stride(of_y)}});
      }
      ++of_y;
    }
  }
  if (any_order) {  // the furthest apart first; those that repeat an element before them
    const auto distance = [](const Loop& loop) {
      const int64_t stride = loop.strides[0];
      return stride == 0 ? std::numeric_limits<int64_t>::max() : std::abs(stride);
    };
    std::ranges::stable_sort(reduced.begin(), reduced.begin() + loops, std::greater{}, distance);
  }
  for (size_t i = 0; i < loops; ++i) {
    append(call.reduced, call.reduced_loops, reduced[i]);
  }
  return call;
}

template <class Call>
Call call_of(const Problem& problem, bool any_order = true) {
  Call call{};
  static_cast<Reduction&>(call) = reduction_of(problem, any_order);
  return call;
}

}  // namespace

void append(std::array<Loop, kMaxRank>& loops, uint8_t& count, const Loop& loop) {
  if (count > 0) {
    Loop& outer = loops[static_cast<size_t>(count - 1)];
    if (outer.strides[0] == loop.strides[0] * loop.extent &&
        outer.strides[1] == loop.strides[1] * loop.extent) {
      outer = {outer.extent * loop.extent, loop.strides};
      return;
    }
  }
  loops[static_cast<size_t>(count++)] = loop;
}

bool Reduction::has_rows() const {
  if (count == 0 || outputs == 0 || kept_loops > 1 || reduced_loops > 1) return false;
  return reduced_loops == 0 ||
         (reduced[0].strides[0] == 1 && (inputs[1] == nullptr || reduced[0].strides[1] == 1));
}

bool Reduction::has_columns() const {
  if (count == 0 || outputs == 0) return false;
  if (reduced_loops > 1 || kept_loops < 1 || kept_loops > 2) return false;
  const Loop& inner = kept[static_cast<size_t>(kept_loops - 1)];
  return inner.strides[0] == 1 && inner.strides[1] == 1;
}

void Sum::infer(Problem& problem) { infer_output(problem, summed(problem)); }
Sum::Call Sum::call(const Problem& problem) {
  Call call = call_of<Call>(problem);
  call.reduced_precision = problem.flag("allow_reduced_precision");
  return call;
}

void Mean::infer(Problem& problem) { infer_output(problem, computed(problem.dtype())); }
Mean::Call Mean::call(const Problem& problem) { return call_of<Call>(problem); }

void Prod::infer(Problem& problem) {
  require_one_dim(problem);
  infer_output(problem, summed(problem));
}
Prod::Call Prod::call(const Problem& problem) { return call_of<Call>(problem); }

void Extremum::infer(Problem& problem) {
  infer_output(problem, problem.dtype());
  require_elements(problem);
}
Amax::Call Amax::call(const Problem& problem) { return call_of<Call>(problem); }
Amin::Call Amin::call(const Problem& problem) {
  Call call = call_of<Call>(problem);
  call.least = true;
  return call;
}

void ArgExtremum::infer(Problem& problem) {
  require_one_dim(problem);
  infer_output(problem, DType::kI64);
  require_elements(problem);
}
Argmax::Call Argmax::call(const Problem& problem) { return call_of<Call>(problem, false); }
Argmin::Call Argmin::call(const Problem& problem) {
  Call call = call_of<Call>(problem, false);
  call.least = true;
  return call;
}

void Test::infer(Problem& problem) {
  const Value& dim = problem.attribute("dim");
  require(dim.is_absent() || dim.as_dims().count > 0, problem.operation->name,
          ": dim names no dimension");
  infer_output(problem, problem.dtype() == DType::kU8 ? DType::kU8 : DType::kBool);
}
Any::Call Any::call(const Problem& problem) { return call_of<Call>(problem); }
All::Call All::call(const Problem& problem) {
  Call call = call_of<Call>(problem);
  call.all = true;
  return call;
}

void VectorNorm::infer(Problem& problem) {
  const double order = problem.number("ord");
  require(order == 1 || order == 2 || order == INFINITY, "vector_norm: ord is ", order,
          "; 1, 2 and inf are there");
  infer_output(problem, problem.dtype());
  if (order == INFINITY) require_elements(problem);
}
VectorNorm::Call VectorNorm::call(const Problem& problem) {
  Call call = call_of<Call>(problem);
  const double order = problem.number("ord");
  call.order = order == 1 ? Order::kOne : order == 2 ? Order::kTwo : Order::kInfinity;
  return call;
}

void Dot::infer(Problem& problem) {
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  require(kDTypes.has(a.dtype), "dot takes ", to_string(kDTypes), ", not ", a);
  require(a.rank == 1 && b.rank == 1 && a.extent(0) == b.extent(0) && a.dtype == b.dtype,
          "dot: 'a' is ", a, ", 'b' is ", b, ": two vectors of one length and dtype are wanted");
  problem.tensor(2) = Tensor::dense(a.dtype, {});
}
Dot::Call Dot::call(const Problem& problem) {
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  Call call{};
  call.inputs = {a.data, b.data};
  call.output = problem.tensor(2).data;
  call.dtype = call.output_dtype = a.dtype;
  call.count = a.extent(0);
  if (call.count != 1) call.reduced[0] = {a.extent(0), {a.stride(0), b.stride(0)}};
  call.reduced_loops = call.count != 1 ? 1 : 0;
  call.reduced_precision = problem.flag("allow_reduced_precision");
  return call;
}

}  // namespace ws::reduce
