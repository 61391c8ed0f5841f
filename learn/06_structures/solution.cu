// Moves particles, of which each is four floats: position x, y, z and mass. Masses stay.

__global__ void move_kernel(int count, float dx, float dy, float dz, const float* before,
                            float* after) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float4 particle = reinterpret_cast<const float4*>(before)[i];
  particle.x += dx;
  particle.y += dy;
  particle.z += dz;
  reinterpret_cast<float4*>(after)[i] = particle;
}

void move_particles(int count, float dx, float dy, float dz, const float* before, float* after) {
  move_kernel<<<(count + 127) / 128, 128>>>(count, dx, dy, dz, before, after);
}
