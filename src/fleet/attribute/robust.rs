//! Estimates that a minority of wrong values does not move.
#![forbid(unsafe_code)]

/// A median absolute deviation times this estimates a standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;
/// Where Tukey's bisquare stops to count a residual, in standard deviations: 95 % efficiency.
const BISQUARE: f64 = 4.685;

/// The middle value, or the mean of the two middle ones; 0 of nothing. Reorders the values.
pub(super) fn median(values: &mut [f64]) -> f64 {
    let (half, is_odd) = (values.len() / 2, values.len() % 2 == 1);
    if values.is_empty() {
        return 0.0;
    }
    let (below, &mut upper, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    if is_odd {
        return upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(lower, upper)
}

/// The value that five eighths are not above; 0 of nothing. Reorders the values.
pub(super) fn upper_part(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let at = values.len() * 5 / 8;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}

/// The standard deviation, from the median of the distances to `center`. Reorders and changes the
/// values.
pub(super) fn spread(values: &mut [f64], center: f64) -> f64 {
    for value in values.iter_mut() {
        *value = (*value - center).abs();
    }
    MAD_TO_SIGMA * median(values)
}

/// The standard error of a median of `count` values; of one or two, of their mean.
pub(super) fn error_of_median(sigma: f64, count: usize) -> f64 {
    let factor = if count < 3 { 1.0 } else { 1.2533 };
    factor * sigma / (count as f64).sqrt()
}

/// Tukey's bisquare loss of a residual in standard deviations. It does not grow beyond 1, so one
/// wild value counts no more than one that is clearly wrong.
pub(super) fn loss(residual: f64) -> f64 {
    let inside = (residual / BISQUARE).abs().min(1.0);
    1.0 - (1.0 - inside * inside).powi(3)
}

/// How likely it is that chance makes none of `tries` values as low as `z` standard errors. From a
/// bound of the normal distribution's tail, so rather too low.
pub(super) fn confidence(z: f64, tries: usize) -> f64 {
    let tail = 0.5 * (-0.5 * z * z).exp();
    if z <= 0.0 {
        0.0
    } else {
        (1.0 - tries as f64 * tail).max(0.0)
    }
}

/// The share of a normal distribution below `z`; wrong by at most 0.01.
pub(super) fn share_below(z: f64) -> f64 {
    1.0 / (1.0 + (-1.702 * z).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0]), 3.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
        assert_eq!(median(&mut [9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [9.0, 1.0, 2.0, -7.0]), 1.5);
    }

    #[test]
    fn five_eighths_are_not_above_the_upper_part() {
        assert_eq!(upper_part(&mut []), 0.0);
        assert_eq!(
            upper_part(&mut [7.0, 2.0, 5.0, 1.0, 3.0, 8.0, 4.0, 6.0]),
            6.0
        );
    }

    #[test]
    fn a_median_is_surer_the_more_values_it_is_of() {
        assert_eq!(error_of_median(0.1, 1), 0.1);
        assert!(error_of_median(0.1, 100) < 0.02);
    }

    #[test]
    fn a_minority_of_wild_values_does_not_move_the_spread() {
        let mut values: Vec<f64> = (-50..=50).map(f64::from).collect();
        let quiet = spread(&mut values.clone(), 0.0);
        values[..20].fill(1e9);
        let loud = spread(&mut values, 0.0);
        assert!(
            (quiet - 37.0).abs() < 1.0 && loud < 1.5 * quiet,
            "{quiet} {loud}"
        );
    }

    #[test]
    fn a_loss_is_bounded_and_a_confidence_falls_with_the_number_of_tries() {
        assert_eq!(loss(0.0), 0.0);
        assert_eq!((loss(5.0), loss(-500.0)), (1.0, 1.0));
        assert!(loss(1.0) < loss(2.0));
        assert_eq!(confidence(-1.0, 1), 0.0);
        assert!(confidence(4.0, 10) > 0.99 && confidence(4.0, 1_000_000) == 0.0);
        assert!((share_below(1.0) - 0.8413).abs() < 0.01);
    }
}
