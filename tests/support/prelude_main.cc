// Is not built: weft_prelude (cmake/weft.cmake) needs a program, with whose options its headers are
// compiled.
int main() { return 0; }
