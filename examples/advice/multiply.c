/* Multiplies two square matrices: `multiply SIDE BLOCK`. With BLOCK 0 it goes over all of `right`
 * for each row of the result. With a block, it finishes BLOCK rows of `right` before it goes on
 * to the next. The result is the same. */
#include <stdio.h>
#include <stdlib.h>

static double *matrix(int side, int seed)
{
    double *made = malloc(sizeof(double) * side * side);
    for (int at = 0; at < side * side; at++)
        made[at] = (at * 7919LL + seed) % 1009;
    return made;
}

static void by_rows(int side, const double *left, const double *right, double *result)
{
    for (int row = 0; row < side; row++)
        for (int inner = 0; inner < side; inner++)
            for (int column = 0; column < side; column++)
                result[row * side + column] += left[row * side + inner] * right[inner * side + column];
}

static void by_blocks(int side, int block, const double *left, const double *right, double *result)
{
    for (int inner0 = 0; inner0 < side; inner0 += block)
        for (int row = 0; row < side; row++)
            for (int inner = inner0; inner < inner0 + block && inner < side; inner++)
                for (int column = 0; column < side; column++)
                    result[row * side + column] += left[row * side + inner] * right[inner * side + column];
}

int main(int count, char **words)
{
    int side = count > 1 ? atoi(words[1]) : 512, block = count > 2 ? atoi(words[2]) : 0;
    double *left = matrix(side, 1), *right = matrix(side, 2), *result = calloc(sizeof(double), side * side);
    if (block)
        by_blocks(side, block, left, right, result);
    else
        by_rows(side, left, right, result);
    double sum = 0;
    for (int at = 0; at < side * side; at++)
        sum += result[at] * (at % 7);
    printf("%.0f\n", sum);
    return 0;
}
