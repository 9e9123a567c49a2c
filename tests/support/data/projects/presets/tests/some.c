int total(const int *, int);
int main(void) { int p[] = {2}; return total(p, 1) < 2; }
