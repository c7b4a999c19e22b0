/* Declarations of the C library that models use, to compile them where there is none. */
#include <stddef.h>
void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *one, const void *other, size_t bytes);
int strcmp(const char *one, const char *other);
