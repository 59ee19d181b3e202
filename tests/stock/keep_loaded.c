/* Preloaded to a program under AddressSanitizer: its plug-ins stay, so that a leak's stack has the
   names of their functions. Of each that has gone, the runtime would read /proc/self/maps again. */
int dlclose(void *library) {
  (void)library;
  return 0;
}
