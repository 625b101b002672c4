//! The papers, and all that can be measured again of them.

use crate::{
    Error, Item, apr_2020, apr_2020_access_window, clock_pro_2005, clock_pro_2005_figure_4,
    clock_pro_2005_live, clock_pro_2005_others, clock_pro_2005_readings, clock_pro_2005_streams,
    clock_pro_2005_table_6, compressed_caching_1999, linux_mm, linux_mm_live, wsclock_1981,
    wsclock_1981_causes, wsclock_1981_speed,
};

/// What each paper's folder says of it, by folder.
const READMES: &[(&str, &str)] = &[
    ("apr-2020", include_str!("../papers/apr-2020/README.md")),
    ("clock-pro-2005", include_str!("../papers/clock-pro-2005/README.md")),
    ("compressed-caching-1999", include_str!("../papers/compressed-caching-1999/README.md")),
    (
        "linux-mm-advanced-page-replacement",
        include_str!("../papers/linux-mm-advanced-page-replacement/README.md"),
    ),
    ("wsclock-1981", include_str!("../papers/wsclock-1981/README.md")),
];

/// A paper's name and its citation: the heading and the first paragraph of its README.
pub fn paper(folder: &str) -> Option<(&'static str, String)> {
    let (_, readme) = READMES.iter().find(|(known, _)| *known == folder)?;
    let mut paragraphs = readme.split("\n\n");
    let title = paragraphs.next()?.strip_prefix("# ")?;
    Some((title, paragraphs.next()?.replace('\n', " ")))
}

/// The papers with their items; a paper's follow each other.
const PAPERS: &[&[Item]] = &[
    clock_pro_2005::ITEMS,
    clock_pro_2005_figure_4::ITEMS,
    clock_pro_2005_streams::ITEMS,
    clock_pro_2005_table_6::ITEMS,
    clock_pro_2005_others::ITEMS,
    clock_pro_2005_readings::ITEMS,
    wsclock_1981::ITEMS,
    wsclock_1981_causes::ITEMS,
    apr_2020::ITEMS,
    apr_2020_access_window::ITEMS,
    linux_mm::ITEMS,
    compressed_caching_1999::ITEMS,
];

/// Items that run programs live: measured on a machine. Their results are the machine's, and of the
/// day.
const MEASURED: &[&[Item]] = &[clock_pro_2005_live::ITEMS, wsclock_1981_speed::ITEMS, linux_mm_live::ITEMS];

/// Everything that comes out the same wherever it is run, paper by paper.
pub fn all_items() -> impl Iterator<Item = &'static Item> {
    PAPERS.iter().copied().flatten()
}

/// Everything that is measured on the machine that it is run on. It takes minutes, root's rights
/// and Debian's programs, so it is not among [`all_items`], nor what a paper's name stands for.
pub fn measured_items() -> impl Iterator<Item = &'static Item> {
    MEASURED.iter().copied().flatten()
}

/// Every item: [`all_items`], then [`measured_items`].
pub fn every_item() -> impl Iterator<Item = &'static Item> {
    all_items().chain(measured_items())
}

/// The items that `names` stand for: an item (`clock-pro/table-1`), what comes out the same
/// everywhere of a paper (`clock-pro`), or of all if there are no names.
pub fn items(names: &[String]) -> Result<Vec<&'static Item>, Error> {
    let mut items: Vec<&Item> = Vec::new();
    for name in names {
        let name = name.trim_end_matches('/');
        let of_paper = |item: &&Item| item.id == name || item.id.split('/').next() == Some(name);
        let measured = measured_items().filter(|item| item.id == name);
        let found: Vec<_> = all_items().filter(of_paper).chain(measured).collect();
        if found.is_empty() {
            let known: Vec<_> = every_item().map(|item| item.id).collect();
            return Err(Error::UnknownItem { name: name.to_string(), known: known.join(" ") });
        }
        items.extend(found);
    }
    Ok(if names.is_empty() { all_items().collect() } else { items })
}
