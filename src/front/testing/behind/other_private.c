/* A verbs library of another year: its providers import another private interface. */
__attribute__((visibility("default"))) void* ibv_get_device_list(int* count);
void* ibv_get_device_list(int* count) {
  *count = 0;
  return 0;
}
