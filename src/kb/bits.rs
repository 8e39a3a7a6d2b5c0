//! A set of small numbers, one bit each.

/// A set of numbers below a bound; takes one bit per possible number.
#[derive(Clone, Debug)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// Creates an empty set for numbers below `bound`, rounded up to a multiple of 64. O(bound /
    /// 64).
    pub fn new(bound: usize) -> Self {
        Self(vec![0; bound.div_ceil(64)])
    }

    /// Adds a number; returns whether the number was not yet in the set. Ignores a number out of
    /// bounds and returns `false`.
    #[inline]
    pub fn insert(&mut self, number: u32) -> bool {
        let Some(word) = self.0.get_mut(number as usize / 64) else { return false };
        let bit = 1 << (number % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Whether a number is in the set.
    #[inline]
    pub fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// Iterates over the numbers in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (mut words, mut rest) = (self.0.iter().zip((0u32..).step_by(64)), (0u64, 0u32));
        std::iter::from_fn(move || {
            while rest.0 == 0 {
                let (&word, first) = words.next()?;
                rest = (word, first);
            }
            let number = rest.1 + rest.0.trailing_zeros();
            rest.0 &= rest.0 - 1;
            Some(number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_hold_each_number_once_and_ascend() {
        let mut bits = Bits::new(130);
        let numbers = [129, 0, 64, 63, 128, 64, 0];
        let n_new = numbers.iter().filter(|&&number| bits.insert(number)).count();
        assert_eq!((n_new, bits.insert(192)), (5, false), "192 is out of bounds");
        assert_eq!(bits.iter().collect::<Vec<u32>>(), [0, 63, 64, 128, 129]);
        assert!(bits.contains(63) && !bits.contains(1) && !bits.contains(192));
    }
}
