// From problems to calls: what fits together, what comes out.
#include "kernels/rope/operations.hpp"

#include <cmath>

namespace ws::rope {
namespace {

[[noreturn]] void refuse(const Problem& problem, std::string_view name, const Tensor& tensor,
                         std::string_view wanted) {
  throw InvalidArgument(concatenate(problem.operation->name, ": '", name, "' is ", tensor, ", not ",
                                    wanted, "; '", problem.operation->parameters[0].name, "' is ",
                                    problem.tensor(0)));
}

// A tensor as [batch, position, head, column]; what it has not is 1 and repeated.
struct Seen {
  int64_t batches, positions, heads, columns;
  Strides strides;
};
Seen seen(const Tensor& tensor, bool heads_first) {
  const int rank = tensor.rank;
  const int position = rank - (heads_first ? 2 : 3);
  const int head = rank - (heads_first ? 3 : 2);
  const auto extent = [&](int d) { return d >= 0 ? tensor.extent(d) : 1; };
  const auto stride = [&](int d) { return d >= 0 && tensor.extent(d) > 1 ? tensor.stride(d) : 0; };
  return {.batches = extent(rank - 4),
          .positions = extent(position),
          .heads = extent(head),
          .columns = tensor.extent(rank - 1),
          .strides = {.batch = stride(rank - 4),
                      .position = stride(position),
                      .head = stride(head),
                      .column = tensor.extent(rank - 1) > 1 ? tensor.stride(rank - 1) : 1}};
}
// A table alone, which no head has, stands with its rows first.
Seen seen_table(const Tensor& table, bool heads_first) {
  return seen(table, heads_first || table.rank == 2);
}

void check_heads(const Problem& problem, const Tensor& x, std::string_view name) {
  const int least = problem.flag("heads_first") ? 2 : 3;
  if (!kFloats.has(x.dtype) || x.rank < least || x.rank > 4) [[unlikely]] {
    refuse(problem, name, x,
           least == 2 ? "of f32, f16 or bf16 with 2 to 4 dimensions"
                      : "of f32, f16 or bf16 with 3 or 4 dimensions");
  }
}
void check_keys(const Problem& problem, const Tensor& q, const Tensor& k) {
  const bool heads_first = problem.flag("heads_first");
  check_heads(problem, k, "k");
  const Seen queries = seen(q, heads_first);
  const Seen keys = seen(k, heads_first);
  if (k.dtype != q.dtype || k.rank != q.rank || keys.batches != queries.batches ||
      keys.positions != queries.positions || keys.columns != queries.columns) [[unlikely]] {
    refuse(problem, "k", k, "of the dtype and shape of 'q' but for the heads");
  }
}

void check_table(const Problem& problem, std::string_view name, const Seen& x) {
  const Tensor& table = problem[name];
  const Tensor& first = problem.tensor(0);
  if ((table.dtype != DType::kF32 && table.dtype != first.dtype) || table.rank < 2 ||
      table.rank > 4) [[unlikely]] {
    refuse(problem, name, table, "of f32 or the other's dtype with 2 to 4 dimensions");
  }
  const Seen rows = seen_table(table, problem.flag("heads_first"));
  const bool fits = (rows.heads == 1 || (rows.heads == x.heads && !problem.find("k").exists())) &&
                    (rows.batches == 1 || rows.batches == x.batches) &&
                    rows.columns * 2 <= x.columns;
  if (!fits) [[unlikely]] {
    refuse(problem, name, table,
           "[T, columns], columns up to half of those of a head, or that with its own heads "
           "(of rope) and batch");
  }
  if (!problem["positions"].exists() && rows.positions < x.positions) [[unlikely]] {
    refuse(problem, name, table, concatenate("of a row for each of ", x.positions, " positions"));
  }
}

void check_tables(const Problem& problem, const Seen& x) {
  const Tensor& cos = problem["cos"];
  const Tensor& sin = problem["sin"];
  if (cos.exists() != sin.exists()) [[unlikely]] {
    throw InvalidArgument(
        concatenate(problem.operation->name, ": takes 'cos' and 'sin' together or neither"));
  }
  if (!cos.exists()) return;
  check_table(problem, "cos", x);
  if (sin.dtype != cos.dtype || !sin.same_shape(cos)) [[unlikely]] {
    refuse(problem, "sin", sin, concatenate("of the shape and dtype of 'cos', ", cos));
  }
}

void check_positions(const Problem& problem, const Seen& x) {
  const Tensor& positions = problem["positions"];
  if (!positions.exists()) return;
  const int rank = positions.rank;
  const bool fits = (positions.dtype == DType::kI64 || positions.dtype == DType::kI32) &&
                    (rank == 1 || rank == 2) && positions.extent(rank - 1) == x.positions &&
                    (rank == 1 || positions.extent(0) == 1 || positions.extent(0) == x.batches);
  if (!fits) [[unlikely]] {
    refuse(problem, "positions", positions,
           concatenate("i64 or i32 [", x.positions, "] or [", x.batches, ", ", x.positions, "]"));
  }
}

int64_t pairs_of(const Problem& problem, int64_t columns) {
  const Tensor& cos = problem["cos"];
  const Value& wanted = problem.attribute("rotary_dim");
  const int64_t all = cos.exists() ? 2 * cos.extent(cos.rank - 1) : columns;
  const int64_t turned = wanted.is_absent() ? all : wanted.as_int();
  if (turned < 2 || turned > columns || turned % 2 != 0) [[unlikely]] {
    throw InvalidArgument(concatenate(problem.operation->name, ": ", turned, " of ", columns,
                                      " columns turn; an even number from 2 on can"));
  }
  if (cos.exists() && turned != all) [[unlikely]] {
    throw InvalidArgument(concatenate(problem.operation->name, ": rotary_dim is ", turned,
                                      ", but the tables have ", all / 2, " columns, for ", all));
  }
  return turned / 2;
}

Turned turned(const Tensor& x, const Tensor& y, bool heads_first) {
  const Seen from = seen(x, heads_first);
  return {.x = x.data,
          .y = y.data,
          .heads = from.heads,
          .from = from.strides,
          .to = seen(y, heads_first).strides};
}

template <class OperationCall>
OperationCall call_of(const Problem& problem) {
  const bool heads_first = problem.flag("heads_first");
  const Tensor& first = problem.tensor(0);
  const Tensor& cos = problem["cos"];
  const Tensor& sin = problem["sin"];
  const Tensor& positions = problem["positions"];
  const Seen x = seen(first, heads_first);
  OperationCall call{};
  call.dtype = first.dtype;
  call.batches = x.batches;
  call.positions = x.positions;
  call.columns = x.columns;
  call.pairs = pairs_of(problem, x.columns);
  call.has_tables = cos.exists();
  if (call.has_tables) {
    const Seen rows = seen_table(cos, heads_first);
    call.table_dtype = cos.dtype;
    call.cos = {cos.data, rows.strides};
    call.sin = {sin.data, seen_table(sin, heads_first).strides};
    call.table_rows = rows.positions;
  }
  call.has_positions = positions.exists();
  if (call.has_positions) {
    const int last = positions.rank - 1;
    call.position = positions.data;
    call.wide_positions = positions.dtype == DType::kI64;
    call.position_stride = positions.stride(last);
    call.batch_stride = last == 1 && positions.extent(0) > 1 ? positions.stride(0) : 0;
  }
  call.interleaved = problem.flag("interleaved");
  call.inverse = problem.flag("inverse");
  call.base = problem.number("base");
  return call;
}

}  // namespace

void Common::infer(Problem& problem) {
  const Tensor& first = problem.tensor(0);
  const Tensor& k = problem.find("k");
  check_heads(problem, first, problem.operation->parameters[0].name);
  if (k.exists()) check_keys(problem, first, k);
  const Seen x = seen(first, problem.flag("heads_first"));
  check_tables(problem, x);
  check_positions(problem, x);
  pairs_of(problem, x.columns);
  const double base = problem.number("base");
  if (!(base >= 1 && std::isfinite(base))) [[unlikely]] {
    throw InvalidArgument(
        concatenate(problem.operation->name, ": base is finite and from 1 on, not ", base));
  }
  if (k.exists()) {
    problem["q_out"] = Tensor::like(first);
    problem["k_out"] = Tensor::like(k);
  } else {
    problem["y"] = Tensor::like(first);
  }
}

RopeCall Rope::call(const Problem& problem) {
  auto call = call_of<RopeCall>(problem);
  call.tensors[0] = turned(problem["x"], problem["y"], problem.flag("heads_first"));
  return call;
}
RopeQkCall RopeQk::call(const Problem& problem) {
  const Tensor& q = problem["q"];
  const Tensor& k = problem["k"];
  const Tensor& q_out = problem["q_out"];
  const Tensor& k_out = problem["k_out"];
  // What is exactly an input is its own: another's would be read after it is written.
  if (q.elements() > 0 && k.elements() > 0 && q.data != nullptr &&
      (q_out.data == k.data || k_out.data == q.data)) [[unlikely]] {
    throw InvalidArgument(
        "rope_qk: 'q_out' may be the memory of 'q' and 'k_out' that of 'k', not "
        "the other way round");
  }
  auto call = call_of<RopeQkCall>(problem);
  const bool heads_first = problem.flag("heads_first");
  call.tensors[0] = turned(q, q_out, heads_first);
  call.tensors[1] = turned(k, k_out, heads_first);
  return call;
}

}  // namespace ws::rope
