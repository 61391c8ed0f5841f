// What the operations take, and the lines that a call becomes.
#include "kernels/scan/operations.hpp"

namespace ws::scan {
namespace {

// The dimension of x that a call scans; 0 of a single element, which torch gives one to name.
int scanned(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  const int64_t dim = problem.integer("dim");
  const int rank = std::max(x.rank, 1);
  require(dim >= -rank && dim < rank, problem.operation->name, ": dim ", dim,
          " of a tensor of rank ", x.rank, ": from ", -rank, " to ", rank - 1);
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

void infer_output(Problem& problem, DType dtype) {
  const Tensor& x = problem.tensor(0);
  require(problem.operation->dtypes.has(x.dtype), problem.operation->name, " takes ",
          to_string(problem.operation->dtypes), ", not ", x);
  scanned(problem);
  problem.tensor(1) = Tensor::like(x, dtype);
}

// Of cumsum and cumprod.
DType added_up(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  const Value& chosen = problem.attribute("dtype");
  if (chosen.is_absent()) return kWhole.has(x.dtype) ? DType::kI64 : x.dtype;
  const DType dtype = chosen.as_choice() == 0 ? DType::kI32 : DType::kI64;
  require(kWhole.has(x.dtype) && size_of(x.dtype) <= size_of(dtype), problem.operation->name,
          ": dtype ", kWholeNumbers[static_cast<size_t>(chosen.as_choice())],
          " does not hold each element of ", x);
  return dtype;
}

template <class Call>
Call call_of(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  const Tensor& y = problem.tensor(1);
  const int dim = scanned(problem);
  Call call{};
  call.input = x.data;
  call.output = y.data;
  call.dtype = x.dtype;
  call.output_dtype = y.dtype;
  call.exclusive = problem.flag("exclusive");
  call.reverse = problem.flag("reverse");
  call.strides = {1, 1};
  for (int d = 0; d < x.rank; ++d) {
    if (d == dim) {
      call.count = x.extent(d);
      if (call.count != 1) call.strides = {x.stride(d), y.stride(d)};
    } else {
      call.lines *= x.extent(d);
      if (x.extent(d) == 1) continue;
      reduce::append(call.line, call.loops, {x.extent(d), {x.stride(d), y.stride(d)}});
    }
  }
  return call;
}

template <class Call>
Call extremum(const Problem& problem, bool least) {
  Call call = call_of<Call>(problem);
  call.least = least;
  return call;
}

}  // namespace

void Cumsum::infer(Problem& problem) { infer_output(problem, added_up(problem)); }
Cumsum::Call Cumsum::call(const Problem& problem) { return call_of<Call>(problem); }

void Cumprod::infer(Problem& problem) { infer_output(problem, added_up(problem)); }
Cumprod::Call Cumprod::call(const Problem& problem) { return call_of<Call>(problem); }

void Logcumsumexp::infer(Problem& problem) { infer_output(problem, problem.dtype()); }
Logcumsumexp::Call Logcumsumexp::call(const Problem& problem) { return call_of<Call>(problem); }

void Extremum::infer(Problem& problem) { infer_output(problem, problem.dtype()); }
ScanMax::Call ScanMax::call(const Problem& problem) { return extremum<Call>(problem, false); }
ScanMin::Call ScanMin::call(const Problem& problem) { return extremum<Call>(problem, true); }

}  // namespace ws::scan
