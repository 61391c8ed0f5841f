// What NVIDIA's samples bring along for their host code: arguments, clocks.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

// NOLINTBEGIN
// Of --name=value, -name=value or -name what stands behind the name; null where there is none.
inline const char* ws_argument(int count, const char** arguments, const char* name) {
  const size_t length = std::strlen(name);
  for (int i = 1; i < count; ++i) {
    const char* at = arguments[i];
    while (*at == '-') ++at;
    if (at == arguments[i] || std::strncmp(at, name, length) != 0) continue;
    if (at[length] == '=') return at + length + 1;
    if (at[length] == '\0') return at + length;
  }
  return nullptr;
}
inline bool checkCmdLineFlag(int count, const char** arguments, const char* name) {
  return ws_argument(count, arguments, name) != nullptr;
}
inline int getCmdLineArgumentInt(int count, const char** arguments, const char* name) {
  const char* value = ws_argument(count, arguments, name);
  return value != nullptr ? std::atoi(value) : 0;
}
inline float getCmdLineArgumentFloat(int count, const char** arguments, const char* name) {
  const char* value = ws_argument(count, arguments, name);
  return value != nullptr ? static_cast<float>(std::atof(value)) : 0.0f;
}
inline bool getCmdLineArgumentString(int count, const char** arguments, const char* name,
                                     char** result) {
  *result = const_cast<char*>(ws_argument(count, arguments, name));
  return *result != nullptr;
}

// Milliseconds of this machine's clock.
class StopWatchInterface {
 public:
  void start() { begin_ = Clock::now(); }
  void stop() {
    sum_ += std::chrono::duration<float, std::milli>(Clock::now() - begin_).count();
    ++sessions_;
  }
  void reset() {
    sum_ = 0;
    sessions_ = 0;
    begin_ = Clock::now();
  }
  float getTime() const { return sum_; }
  float getAverageTime() const { return sessions_ > 0 ? sum_ / sessions_ : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
  float sum_ = 0;
  int sessions_ = 0;
};
inline bool sdkCreateTimer(StopWatchInterface** timer) {
  *timer = new StopWatchInterface;
  return true;
}
inline bool sdkDeleteTimer(StopWatchInterface** timer) {
  delete *timer;
  *timer = nullptr;
  return true;
}
inline bool sdkStartTimer(StopWatchInterface** timer) { return (*timer)->start(), true; }
inline bool sdkStopTimer(StopWatchInterface** timer) { return (*timer)->stop(), true; }
inline bool sdkResetTimer(StopWatchInterface** timer) { return (*timer)->reset(), true; }
inline float sdkGetTimerValue(StopWatchInterface** timer) { return (*timer)->getTime(); }
inline float sdkGetAverageTimerValue(StopWatchInterface** timer) {
  return (*timer)->getAverageTime();
}
// NOLINTEND
