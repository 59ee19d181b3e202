// For weft_prelude (cmake/weft.cmake): headers are precompiled for a program or a library, which
// nobody runs.
int main() { return 0; }
