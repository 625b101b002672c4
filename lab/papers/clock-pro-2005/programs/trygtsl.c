/* General tridiagonal systems, solved by Gaussian elimination with pivots between neighbouring
 * rows: the method of LINPACK's gtsl, which the CLOCK-Pro paper's program trygtsl calls. Five
 * arrays, 69.7 MB as there.
 * Usage: trygtsl N SYSTEMS */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* c: below the diagonal, d: the diagonal, e: above it; b: the right side, then the solution. */
static int solve(size_t n, double *c, double *d, double *e, double *b)
{
    c[0] = d[0];
    d[0] = e[0];
    e[0] = e[n - 1] = 0.0;
    for (size_t k = 0; k + 1 < n; k++) {
        if (fabs(c[k + 1]) >= fabs(c[k])) {
            double t = c[k + 1];
            c[k + 1] = c[k], c[k] = t;
            t = d[k + 1], d[k + 1] = d[k], d[k] = t;
            t = e[k + 1], e[k + 1] = e[k], e[k] = t;
            t = b[k + 1], b[k + 1] = b[k], b[k] = t;
        }
        if (c[k] == 0.0)
            return 0;
        double t = -c[k + 1] / c[k];
        c[k + 1] = d[k + 1] + t * d[k];
        d[k + 1] = e[k + 1] + t * e[k];
        e[k + 1] = 0.0;
        b[k + 1] += t * b[k];
    }
    if (c[n - 1] == 0.0)
        return 0;
    b[n - 1] /= c[n - 1];
    b[n - 2] = (b[n - 2] - d[n - 2] * b[n - 1]) / c[n - 2];
    for (size_t k = n - 2; k-- > 0;)
        b[k] = (b[k] - d[k] * b[k + 1] - e[k] * b[k + 2]) / c[k];
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: trygtsl N SYSTEMS\n");
        return 2;
    }
    size_t n = strtoul(argv[1], NULL, 10);
    int systems = atoi(argv[2]);
    double *array[5];
    for (int which = 0; which < 5; which++)
        if (n < 3 || !(array[which] = malloc(n * sizeof(double)))) {
            fprintf(stderr, "trygtsl: no system of this size\n");
            return 2;
        }
    double *c = array[0], *d = array[1], *e = array[2], *b = array[3], *x = array[4], worst = 0.0;
    for (int system = 0; system < systems; system++) {
        for (size_t k = 0; k < n; k++) {
            c[k] = k > 0 ? 1.0 : 0.0;
            d[k] = 2.0 + system + (k & 7);
            e[k] = k + 1 < n ? 1.5 : 0.0;
            x[k] = 1.0 + (k & 15);
        }
        for (size_t k = 0; k < n; k++)
            b[k] = d[k] * x[k] + (k > 0 ? c[k] * x[k - 1] : 0.0) + (k + 1 < n ? e[k] * x[k + 1] : 0.0);
        if (!solve(n, c, d, e, b)) {
            fprintf(stderr, "trygtsl: a singular system\n");
            return 1;
        }
        for (size_t k = 0; k < n; k++)
            worst = fmax(worst, fabs(b[k] - x[k]));
    }
    printf("%.3e\n", worst);
    return worst > 1e-6;
}
