/* Successive over-relaxation of Laplace's equation on a square grid, in place, row after row: the
 * method of the CLOCK-Pro paper's program sor, in 70.9 MB as there.
 * Usage: sor N ROUNDS */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: sor N ROUNDS\n");
        return 2;
    }
    size_t n = strtoul(argv[1], NULL, 10);
    int rounds = atoi(argv[2]);
    double *grid = malloc(n * n * sizeof *grid);
    if (n < 3 || !grid) {
        fprintf(stderr, "sor: no grid of this size\n");
        return 2;
    }
    for (size_t i = 0; i < n * n; i++)
        grid[i] = i < n ? 1.0 : 0.0;
    const double omega = 1.5;
    for (int round = 0; round < rounds; round++)
        for (size_t row = 1; row + 1 < n; row++) {
            double *above = grid + (row - 1) * n, *here = above + n, *below = here + n;
            for (size_t column = 1; column + 1 < n; column++) {
                double mean = 0.25 * (above[column] + below[column] + here[column - 1] + here[column + 1]);
                here[column] += omega * (mean - here[column]);
            }
        }
    printf("%.12f\n", grid[n + n / 2]);
    return 0;
}
