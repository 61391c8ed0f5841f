// What a wheel calls of glibc that glibc 2.28 has not, by what it has; seen by nothing but what
// this is linked into. Programs that `warpsmith run` makes have it too, from the archive that a
// wheel brings for them: it may be linked where glibc is as old.

#include <pthread.h>

extern "C" {

// Of 2.32, a variable: whether there is but one thread, so that libstdc++ counts references without
// atomics. No is always right.
char __libc_single_threaded = 0;  // NOLINT(readability-identifier-naming): glibc's

// Of 2.30: what libstdc++ waits by until a time of the steady clock, and then asks that clock
// itself whether the time is up. The older function waits until a time of the other clock, as far
// from now.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* end) {
  timespec now;
  timespec until;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += end->tv_sec - now.tv_sec;
  until.tv_nsec += end->tv_nsec - now.tv_nsec;
  constexpr long kSecond = 1'000'000'000;
  if (until.tv_nsec < 0) {
    until.tv_nsec += kSecond;
    --until.tv_sec;
  } else if (until.tv_nsec >= kSecond) {
    until.tv_nsec -= kSecond;
    ++until.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &until);
}
}
