// Moves particles, of which each is four floats: position x, y, z and mass. Masses stay.

__global__ void move_kernel(int count, float dx, float dy, float dz, const float* before,
                            float* after) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  after[4 * i + 0] = before[4 * i + 0] + dx;
  after[4 * i + 1] = before[4 * i + 1] + dy;
  after[4 * i + 2] = before[4 * i + 2] + dz;
  after[4 * i + 3] = before[4 * i + 3];
}

void move_particles(int count, float dx, float dy, float dz, const float* before, float* after) {
  move_kernel<<<(count + 127) / 128, 128>>>(count, dx, dy, dz, before, after);
}
