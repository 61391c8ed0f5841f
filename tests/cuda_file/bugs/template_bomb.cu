// expect: error at 0: the compiler takes more than 0.6 GB of memory: templates, macros or includes
// compile memory: 600000000
#include <utility>
template <class T> struct Length;
template <long... kNumbers> struct Length<std::integer_sequence<long, kNumbers...>> {
  static const long value = sizeof...(kNumbers);
};
int main() { return Length<std::make_integer_sequence<long, 200000000>>::value == 0; }
