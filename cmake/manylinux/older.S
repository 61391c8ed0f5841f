# What a wheel calls of glibc by names that glibc 2.28 has, in the versions that it has them in.
# The linker binds a name to the newest version of the machine that builds, pthread_create to
# GLIBC_2.34, which 2.28 does not know; every glibc still has the old one beside it. So each such
# name is defined here, seen by nothing but the library or program that this is linked into, and
# jumps to the old one: ten bytes each, called or not. The list has what ours, libstdc++.a and
# libcudart_static.a call. Where a name is missing in it, tools/wheels.py says so: `objdump -T` of
# libc.so.6 or libm.so.6 has its older version, in parentheses.

#ifndef __x86_64__
#error "the versions are those of x86-64"
#endif

.macro begin name
  .section .text.\name, "ax", @progbits
  .globl \name
  .hidden \name
  .type \name, @function
\name:
  endbr64
.endm

.macro jump name, to, version
  .symver older_\name, \to@GLIBC_\version
  jmp *older_\name@GOTPCREL(%rip)
  .size \name, . - \name
.endm

.macro older name, to=, version=2.2.5
  begin \name
  .ifb \to
  jump \name, \name, \version
  .else
  jump \name, \to, \version
  .endif
.endm

# Of 2.29. The older ones differ in what they do for programs that ask for SVID's errors.
older exp
older exp2
older log
older log2
older pow

# Of 2.33. Before, a program had these itself, and named the layout of its struct stat: 1.
.macro older_stat name, to
  begin \name
  mov %rsi, %rdx
  mov %rdi, %rsi
  mov $1, %edi
  jump \name, \to, 2.2.5
.endm
older_stat stat, __xstat
older_stat stat64, __xstat
older_stat lstat, __lxstat
older_stat lstat64, __lxstat
older_stat fstat, __fxstat
older_stat fstat64, __fxstat

# Of 2.34, when libc took in libdl, libpthread and librt; what calls main is in start.cpp.
older dladdr
older dlclose
older dlerror
older dlmopen, version=2.3.4
older dlopen
older dlsym
older dlvsym
older older_start, __libc_start_main
older pthread_condattr_setpshared
older pthread_create
older pthread_detach
older pthread_getspecific
older pthread_join
older pthread_key_create
older pthread_key_delete
older pthread_kill
older pthread_mutex_trylock
older pthread_mutexattr_destroy
older pthread_mutexattr_init
older pthread_mutexattr_setpshared
older pthread_mutexattr_settype
older pthread_once
older pthread_rwlock_destroy
older pthread_rwlock_init
older pthread_rwlock_rdlock
older pthread_rwlock_timedrdlock
older pthread_rwlock_timedwrlock
older pthread_rwlock_tryrdlock
older pthread_rwlock_trywrlock
older pthread_rwlock_unlock
older pthread_rwlock_wrlock
older pthread_rwlockattr_destroy
older pthread_rwlockattr_init
older pthread_rwlockattr_setpshared
older pthread_setspecific
older pthread_spin_destroy
older pthread_spin_init
older pthread_spin_lock
older pthread_spin_trylock
older pthread_spin_unlock
older sem_destroy
older sem_init
older sem_post
older sem_timedwait
older sem_trywait
older sem_wait
older shm_open
older shm_unlink

# Of 2.38. C23's functions read binary numbers too, 0b101, where the base is 0 or 2.
older fmod
older fmodf
older __isoc23_strtol, strtol
older __isoc23_strtoll, strtoll
older __isoc23_strtoul, strtoul
older __isoc23_strtoull, strtoull
older __isoc23_sscanf, __isoc99_sscanf, 2.7

.section .note.GNU-stack, "", @progbits
