/* The shallow water equations on a staggered grid with periodic borders, by finite differences in
 * time and space (R. Sadourny 1975): the method of the CLOCK-Pro paper's program swim (SPEC 95).
 * 14 fields, 15.0 MB as there.
 * Usage: swim N STEPS */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { U, V, P, UNEW, VNEW, PNEW, UOLD, VOLD, POLD, CU, CV, Z, H, PSI, FIELDS };

static size_t n;
static double *field[FIELDS];

static inline double *at(int which, size_t i, size_t j)
{
    return &field[which][i * (n + 1) + j];
}

/* Row n and column n repeat row 0 and column 0. */
static void wrap(int which)
{
    for (size_t i = 0; i < n; i++) {
        *at(which, i, n) = *at(which, i, 0);
        *at(which, n, i) = *at(which, 0, i);
    }
    *at(which, n, n) = *at(which, 0, 0);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: swim N STEPS\n");
        return 2;
    }
    n = strtoul(argv[1], NULL, 10);
    int steps = atoi(argv[2]);
    const double dx = 1e5, dt = 90.0, alpha = 0.001, pi = 3.14159265358979, a = 1e6;
    const double fsdx = 4.0 / dx;
    for (int which = 0; which < FIELDS; which++)
        if (!(field[which] = malloc((n + 1) * (n + 1) * sizeof(double)))) {
            fprintf(stderr, "swim: no memory\n");
            return 2;
        }
    double angle = 2.0 * pi / n, depth = pi * pi * a * a / (n * dx * n * dx);
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= n; j++) {
            *at(PSI, i, j) = a * sin((i + 0.5) * angle) * sin((j + 0.5) * angle);
            *at(P, i, j) = depth * (cos(2.0 * i * angle) + cos(2.0 * j * angle)) + 50000.0;
        }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            *at(U, i, j) = -(*at(PSI, i, j + 1) - *at(PSI, i, j)) / dx;
            *at(V, i, j) = (*at(PSI, i + 1, j) - *at(PSI, i, j)) / dx;
        }
    wrap(U);
    wrap(V);
    for (size_t i = 0; i < (n + 1) * (n + 1); i++) {
        field[UOLD][i] = field[U][i];
        field[VOLD][i] = field[V][i];
        field[POLD][i] = field[P][i];
    }
    double step = dt;
    for (int time = 0; time < steps; time++) {
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                *at(CU, i, j) = 0.5 * (*at(P, i + 1, j) + *at(P, i, j)) * *at(U, i, j);
                *at(CV, i, j) = 0.5 * (*at(P, i, j + 1) + *at(P, i, j)) * *at(V, i, j);
                *at(Z, i, j) =
                    fsdx * (*at(V, i + 1, j) - *at(V, i, j) - *at(U, i, j + 1) + *at(U, i, j)) /
                    (*at(P, i, j) + *at(P, i + 1, j) + *at(P, i + 1, j + 1) + *at(P, i, j + 1));
                double u0 = *at(U, i, j), u1 = *at(U, i + 1, j), v0 = *at(V, i, j), v1 = *at(V, i, j + 1);
                *at(H, i, j) = *at(P, i, j) + 0.25 * (u1 * u1 + u0 * u0 + v1 * v1 + v0 * v0);
            }
        wrap(CU);
        wrap(CV);
        wrap(Z);
        wrap(H);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                *at(UNEW, i, j) = *at(UOLD, i, j) +
                                  step / 8.0 * (*at(Z, i, j + 1) + *at(Z, i, j)) *
                                      (*at(CV, i + 1, j) + *at(CV, i, j) + *at(CV, i + 1, j + 1) + *at(CV, i, j + 1)) -
                                  step / dx * (*at(H, i + 1, j) - *at(H, i, j));
                *at(VNEW, i, j) = *at(VOLD, i, j) -
                                  step / 8.0 * (*at(Z, i + 1, j) + *at(Z, i, j)) *
                                      (*at(CU, i + 1, j) + *at(CU, i, j) + *at(CU, i + 1, j + 1) + *at(CU, i, j + 1)) -
                                  step / dx * (*at(H, i, j + 1) - *at(H, i, j));
                *at(PNEW, i, j) = *at(POLD, i, j) -
                                  step / dx * (*at(CU, i + 1, j) - *at(CU, i, j)) -
                                  step / dx * (*at(CV, i, j + 1) - *at(CV, i, j));
            }
        wrap(UNEW);
        wrap(VNEW);
        wrap(PNEW);
        /* A filter in time keeps the two halves of the leapfrog together. */
        for (size_t i = 0; i < (n + 1) * (n + 1); i++)
            for (int which = U; which <= P; which++) {
                double *now = &field[which][i], *old = &field[UOLD + which - U][i], *new = &field[UNEW + which - U][i];
                *old = *now + (time > 0 ? alpha * (*new - 2.0 * *now + *old) : 0.0);
                *now = *new;
            }
        step = 2.0 * dt;
    }
    printf("%.6f\n", *at(P, n / 2, n / 3));
    return 0;
}
