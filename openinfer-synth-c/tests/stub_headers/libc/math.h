/* Declarations of the C library that models use, to compile them where there is none. */
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)
float rintf(float x);
float fmaf(float x, float y, float z);
float fabsf(float x);
float floorf(float x);
float ceilf(float x);
float truncf(float x);
double rint(double x);
double fabs(double x);
