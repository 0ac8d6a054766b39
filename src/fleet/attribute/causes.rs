//! The slow parts that a rate is of, and what they do not explain.
#![forbid(unsafe_code)]

/// The effects on one rate.
#[derive(Clone, Copy, Default)]
pub(super) struct Causes {
    sum: f64,
    strongest: f64,
}

impl Causes {
    pub(super) fn and(self, log: f64) -> Self {
        Self {
            sum: self.sum + log,
            strongest: self.strongest.min(log),
        }
    }

    /// What the causes do not explain.
    pub(super) fn residual(self, log: f64) -> f64 {
        if log < self.sum {
            log - self.sum
        } else {
            (log - self.strongest).max(0.0)
        }
    }

    pub(super) fn is_free(self) -> bool {
        self.strongest == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_causes_anything_between_the_stronger_and_both_is_explained() {
        let none = Causes::default();
        assert!(none.is_free());
        assert_eq!((none.residual(-0.3), none.residual(0.2)), (-0.3, 0.2));
        let two = none.and(-0.5).and(-0.25);
        assert!(!two.is_free());
        let residuals = [-1.0, -0.75, -0.6, -0.5, -0.25].map(|log| two.residual(log));
        assert_eq!(residuals, [-0.25, 0.0, 0.0, 0.0, 0.25]);
    }
}
