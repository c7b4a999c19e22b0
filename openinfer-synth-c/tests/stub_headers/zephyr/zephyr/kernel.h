/* Declarations of Zephyr that sketches use, to compile them without it. */
#include <stddef.h>
