/* Calls the freestanding policy core; the exit status is the number of policies that failed. */

int sweephand_failures(void);

/* Named by the unwind tables of Rust's alloc. Nothing is unwound: panics stop the program. */
void rust_eh_personality(void) {}

int main(void) { return sweephand_failures(); }
