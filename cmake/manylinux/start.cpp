// What calls main. glibc's own of 2.34 runs the program's constructors by itself; of the older one
// it is the program that says what runs them, as the start files of its time did.

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the linker's names, and glibc's

using Function = void (*)(int, char**, char**);
extern const Function __init_array_start[] __attribute__((visibility("hidden")));
extern const Function __init_array_end[] __attribute__((visibility("hidden")));

using Main = int (*)(int, char**, char**);
int older_start(Main main, int count, char** arguments, Function construct, void (*destruct)(),
                void (*end_loader)(), void* stack_end);

static void construct(int count, char** arguments, char** environment) {
  for (const Function* each = __init_array_start; each != __init_array_end; ++each) {
    (*each)(count, arguments, environment);
  }
}

int __libc_start_main(Main main, int count, char** arguments, Function of_older_start_files,
                      void (*destruct)(), void (*end_loader)(), void* stack_end) {
  const Function runs_constructors =
      of_older_start_files != nullptr ? of_older_start_files : construct;
  return older_start(main, count, arguments, runs_constructors, destruct, end_loader, stack_end);
}

// NOLINTEND(readability-identifier-naming)
}
