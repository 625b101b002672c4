//! What the pages of a program contained.

use std::io::{self, Write};
use sweephand_results::grouped;
use sweephand_trace::contents::{AGES, Contents, SampledPages};
use sweephand_trace::shown;

/// Prints a table by object, which has at most `most_objects` rows and their sum, and one by age.
pub(super) fn write(out: &mut impl Write, contents: &Contents, most_objects: usize) -> io::Result<()> {
    let sampled = contents.sampled();
    let unread = match contents.unread_pages {
        0 => String::new(),
        some => format!("; {} more could not be read", grouped(some)),
    };
    writeln!(
        out,
        "\ncontents of {} pages, read at {} moments{unread} (ratios: of pages neither zero nor same-filled)",
        grouped(sampled.pages),
        contents.moments
    )?;
    if let Some(times) = contents.codec_times {
        writeln!(out, "codecs: {times}; medians, pages of files left out")?;
    }
    if sampled.pages == 0 {
        return Ok(());
    }
    heading(out, "object")?;
    let mut objects = contents.objects.iter();
    objects
        .by_ref()
        .take(most_objects)
        .try_for_each(|object| row(out, &object.sampled, &shown(&object.name)))?;
    let all = match objects.len() {
        0 => "all".to_owned(),
        more => format!("all, with {more} that have fewer pages"),
    };
    row(out, &sampled, &all)?;
    writeln!(out)?;
    heading(out, "last use")?;
    let ages = AGES.iter().zip(&contents.ages).filter(|(_, sampled)| sampled.pages > 0);
    ages.into_iter().try_for_each(|(age, sampled)| row(out, sampled, age))
}

fn heading(out: &mut impl Write, what: &str) -> io::Result<()> {
    writeln!(
        out,
        "{:>8} {:>7} {:>11} {:>6} {:>6} {:>14}  {what}",
        "pages", "zero", "same-filled", "LZ4", "zstd", "incompressible"
    )
}

fn row(out: &mut impl Write, sampled: &SampledPages, name: &str) -> io::Result<()> {
    let share = |pages| format!("{:.1}%", 100.0 * sampled.share(pages));
    let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    writeln!(
        out,
        "{:>8} {:>7} {:>11} {:>6} {:>6} {:>14}  {name}",
        grouped(sampled.pages),
        share(sampled.zero),
        share(sampled.same_filled),
        ratio(sampled.lz4_ratio()),
        ratio(sampled.zstd_ratio()),
        share(sampled.incompressible)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_trace::contents::{CodecTime, CodecTimes, ObjectContents, PageContents};

    #[test]
    fn objects_and_ages_have_rows() {
        let mut sampled = SampledPages::default();
        sampled.add(PageContents::Zero);
        sampled.add(PageContents::Other { lz4_bytes: 2048, zstd_bytes: 1024 });
        let mut ages = vec![SampledPages::default(); AGES.len()];
        ages[3].merge(&sampled);
        let objects = vec![ObjectContents { name: "[heap]".to_owned(), sampled }];
        let told = |contents: &Contents| {
            let mut out = Vec::new();
            write(&mut out, contents, 10).unwrap();
            String::from_utf8(out).unwrap()
        };
        let lz4 = CodecTime { compress_ns: 2_140, decompress_ns: 600 };
        let codec_times = Some(CodecTimes { lz4, zstd: CodecTime { compress_ns: 5_000, ..lz4 } });
        let contents = Contents { moments: 1, unread_pages: 3, objects, ages, codec_times };
        let expected = "
contents of 2 pages, read at 1 moments; 3 more could not be read (ratios: of pages neither zero nor same-filled)
codecs: LZ4 2.1 us to compress a page, 0.6 us to decompress; zstd 5.0 us, 0.6 us; medians, pages of files left out
   pages    zero same-filled    LZ4   zstd incompressible  object
       2   50.0%        0.0%   2.00   4.00           0.0%  [heap]
       2   50.0%        0.0%   2.00   4.00           0.0%  all

   pages    zero same-filled    LZ4   zstd incompressible  last use
       2   50.0%        0.0%   2.00   4.00           0.0%  oldest quarter
";
        assert_eq!(told(&contents), expected);
        let older = told(&Contents { codec_times: None, ..contents });
        assert_eq!(older.lines().count() + 1, expected.lines().count(), "{older}");
        let none =
            Contents { unread_pages: 9, ages: vec![SampledPages::default(); 5], ..Contents::default() };
        assert_eq!(told(&none).lines().count(), 2);
    }
}
