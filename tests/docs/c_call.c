/* Around the C example of docs/python.md. */
#include <stdio.h>

#include "warpsmith/c_api.h"

void example(DLTensor x, DLTensor y, void* stream) {
BLOCK
}
