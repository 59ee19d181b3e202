// How libibverbs and librdmacm export a function: visibility and symbol version.
#pragma once

/// Opens the definition of an exported C function or object. Its version comes from the map.
#define WEFT_EXPORT extern "C" __attribute__((visibility("default")))

/// Binds the function `function` to `versioned`, written "name@NODE" (old programs only) or
/// "name@@NODE" (what new programs link to). For names that live in several nodes; the rest get
/// their node from the map. Stands before a definition that starts with WEFT_EXPORT:
///
///   WEFT_SYMVER(compat_alloc_pd, "ibv_alloc_pd@IBVERBS_1.0")
///   WEFT_EXPORT ibv_pd* compat_alloc_pd(ibv_context*) { ... }
///
/// Both bindings of such a name need this: a plain definition of one that the map lists twice is
/// dropped by the linker without a word (the ABI test tells).
///
/// clang has no symver attribute, so there the assembler directive says the same.
#if defined(__has_attribute) && __has_attribute(symver)
#define WEFT_SYMVER(function, versioned) \
  extern "C" __attribute__((symver(versioned))) decltype(function) function;
#else
#define WEFT_SYMVER(function, versioned) __asm__(".symver " #function "," versioned);
#endif

/// Opens the definition of the verb ibv_NAME that today's programs link to, for those names that
/// IBVERBS_1.0 bound to something else:
///
///   WEFT_VERB(ibv_pd*, alloc_pd, (ibv_context* context)) { ... }
#define WEFT_VERB(type, name, parameters)                       \
  extern "C" type current_##name parameters;                    \
  WEFT_SYMVER(current_##name, "ibv_" #name "@@IBVERBS_1.1")     \
  WEFT_EXPORT type current_##name parameters
