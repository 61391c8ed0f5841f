// The trial family: tests/trial/operations.hpp says what for. It is the only one of its library.
#include "tests/trial/01_plain.cuh"
#include "tests/trial/02_tickets.cuh"

namespace ws {
namespace trial {
namespace {

constexpr Operation kOperations[] = {operation_of<RowMax>(),       operation_of<Weigh>(),
                                     operation_of<ScaleInPlace>(), operation_of<Total>(),
                                     operation_of<Shift>(),        operation_of<Clip>(),
                                     operation_of<Take>()};
constexpr const Rung* kRungs[] = {&kPlain, &kTickets};
constexpr Family kFamily = {.name = "trial",
                            .summary = "tries the catalogue's contracts",
                            .operations = kOperations,
                            .rungs = kRungs};

}  // namespace
}  // namespace trial

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {&trial::kFamily};
  return kFamilies;
}

}  // namespace ws
