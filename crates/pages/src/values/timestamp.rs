//! Points in time as the API writes them: UTC, whole milliseconds.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::{
    OffsetDateTime, PrimitiveDateTime, format_description::StaticFormatDescription, macros::format_description,
};

/// Displays as `2026-11-21T04:30:00.123Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UnixMillis(i64);

/// The years 0000 to 9999, which four digits can show.
const RANGE: std::ops::RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

const ISO_8601_MILLIS: StaticFormatDescription =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

impl UnixMillis {
    pub fn new(millis: i64) -> Self {
        Self(millis.clamp(*RANGE.start(), *RANGE.end()))
    }

    pub fn parse(text: &str) -> Option<Self> {
        let time = PrimitiveDateTime::parse(text, ISO_8601_MILLIS).ok()?.assume_utc();
        i64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok().map(Self)
    }

    pub fn get(self) -> i64 {
        self.0
    }

    /// Lets `updated_at` grow even if a clock goes back.
    #[must_use]
    pub fn strictly_after(self, earlier: Self) -> Self {
        Self::new(self.0.max(earlier.0.saturating_add(1)))
    }
}

impl TryFrom<String> for UnixMillis {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a time is not like 2026-11-21T04:30:00.123Z")
    }
}

impl From<UnixMillis> for String {
    fn from(time: UnixMillis) -> Self {
        time.to_string()
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = i128::from(self.0) * 1_000_000;
        let time = OffsetDateTime::from_unix_timestamp_nanos(nanos).map_err(|_| fmt::Error)?;
        let (year, month, day) = time.to_calendar_date();
        let (hour, minute, second, millis) = time.to_hms_milli();
        let month = u8::from(month);
        // As `ISO_8601_MILLIS`, without a string of its own.
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_has_three_decimals_even_when_they_are_zero() {
        assert_eq!(UnixMillis::new(1_795_235_400_123).to_string(), "2026-11-21T04:30:00.123Z");
        assert_eq!(UnixMillis::new(0).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn every_count_of_milliseconds_can_be_shown() {
        assert_eq!(UnixMillis::new(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(UnixMillis::new(i64::MIN).to_string(), "0000-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_timestamp_is_parsed_only_as_it_is_displayed() {
        for millis in [i64::MIN, -1, 0, 1_795_235_400_123, i64::MAX] {
            let time = UnixMillis::new(millis);
            assert_eq!(UnixMillis::parse(&time.to_string()), Some(time));
        }
        for other in ["", "2026-11-21", "2026-11-21T04:30:00Z", "2026-11-21T04:30:00.123+00:00", "1795235400123"] {
            assert_eq!(UnixMillis::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_clock_that_stops_or_goes_back_yields_a_later_time() {
        let before = UnixMillis::new(1000);
        assert_eq!(UnixMillis::new(1000).strictly_after(before), UnixMillis::new(1001));
        assert_eq!(UnixMillis::new(3).strictly_after(before), UnixMillis::new(1001));
        assert_eq!(UnixMillis::new(2000).strictly_after(before), UnixMillis::new(2000));
    }
}
