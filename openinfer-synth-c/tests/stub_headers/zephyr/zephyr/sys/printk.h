/* Declarations of Zephyr that sketches use, to compile them without it. */
void printk(const char *format, ...);
