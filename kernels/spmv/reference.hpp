// What the references of all formats share: how matrices are filled, and how far results may be
// from them. Of the host alone.
#pragma once

#include <vector>

#include "kernels/spmv/operations.hpp"

namespace ws::spmv {

// From element to element of a vector; 1 where there is no other.
int64_t step_of(const Tensor& vector);

// Where rows begin, of which an entry number beyond the last belongs to none.
std::vector<int64_t> starts_of(int64_t rows, int64_t entries);
int64_t longest_row(int64_t rows, int64_t entries);
// They as a tensor.
void fill_starts(const Tensor& crow, int64_t entries);

// x, added, alpha and beta of a problem, and where its product goes.
void set_vectors(const Problem& problem, Vectors& vectors);
// Lays out x, added and y, `step` apart.
void make_vectors(Problem& problem, DType dtype, int64_t columns, int64_t rows, bool has_added,
                  int64_t step);
// Of an operation that has been told M: 'added' fits, and y is made.
void infer_result(Problem& problem, int64_t rows);
// alpha * sum + beta * added[row], sum being of row `row`.
double completed(const Problem& problem, int64_t row, double sum);

// Of outputs that are sums of n products of standard normal numbers.
Tolerance tolerance_of_sums(DType dtype, int64_t n, double scale, double added);
// The same of alpha A x + beta added.
Tolerance tolerance_of_result(const Problem& problem, int64_t n);

}  // namespace ws::spmv
