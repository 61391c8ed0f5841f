// expect: not supported at 2: CUDA graphs that are built or changed node by node
int main() { cudaGraph_t g; cudaGraphCreate(&g, 0); }
