//! Containers by name, as their engines keep them on disk.
//!
//! | engine | file | what it has |
//! |---|---|---|
//! | Docker | `/var/lib/docker/containers/ID/config.v2.json` | `Name`: a slash and the name |
//! | Podman | `STORAGE/*-containers/containers.json` | `id` and `names` |
//! | nerdctl | `/var/lib/nerdctl/STORE/names/NAMESPACE/NAME` | the id |
//! | Kubernetes | `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log` | a container's names |
//! | | `/var/log/pods/NAMESPACE_POD_UID` | a pod's names |
//!
//! STORAGE is `/var/lib/containers/storage` or, in a home, `.local/share/containers/storage`.
//!
//! Of an engine that keeps its files elsewhere, containers are known by their ids only. Files of
//! containers that do not run stay where they are: whoever asks has to look for a cgroup.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::{Path, PathBuf};

/// The digits of an id are hexadecimal, and a whole one has 64. Users write this many at least.
pub(crate) const LEAST_ID_DIGITS: usize = 12;

/// What a user may have meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Meant {
    /// A container: its id, or the first digits of it.
    Container(String),
    /// All containers of a pod: its UID.
    Pod(String),
}

impl Meant {
    /// Whether a cgroup with this name is the one. Containers have `ID`, `docker-ID.scope`,
    /// `libpod-ID.scope` or `cri-containerd-ID.scope`; pods `podUID`, or
    /// `kubepods-burstable-podUID.slice` with `_` for `-`.
    pub(crate) fn is_cgroup(&self, name: &str) -> bool {
        match self {
            Self::Container(id) => id_in(name).is_some_and(|found| found.starts_with(id)),
            Self::Pod(uid) => {
                let name = name.strip_suffix(".slice").unwrap_or(name);
                let found = name.rsplit_once("-pod").map(|(_, uid)| uid).or(name.strip_prefix("pod"));
                found.is_some_and(|found| found.replace('_', "-") == *uid)
            }
        }
    }
}

/// The id of a container in the name of its cgroup. The process that supervises a container has a
/// cgroup with its id, too: `libpod-conmon-ID.scope`.
fn id_in(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let (before, id) = name.rsplit_once(['-', ':']).unwrap_or(("", name));
    (is_id(id) && !before.ends_with("conmon")).then_some(id)
}

fn is_id(text: &str) -> bool {
    text.len() >= LEAST_ID_DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// What `text` may mean: digits of an id, a name that an engine has given, `POD`, `NAMESPACE/POD`,
/// `POD/CONTAINER` or `NAMESPACE/POD/CONTAINER`. `root` is that of the file system.
pub(crate) fn meant_by(text: &str, root: &Path) -> Vec<Meant> {
    let id = Some(text.to_ascii_lowercase()).filter(|text| is_id(text));
    let named = [docker, podman, nerdctl, kubernetes_containers].into_iter().flat_map(|ids| ids(text, root));
    let mut meant: Vec<Meant> = id.into_iter().chain(named).map(Meant::Container).collect();
    meant.extend(kubernetes_pods(text, root).into_iter().map(Meant::Pod));
    meant
}

/// What is in a folder: nothing if it cannot be read.
fn entries(folder: PathBuf) -> impl Iterator<Item = (String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
}

/// A file of JSON, if it is there and has what is expected.
fn json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn docker(name: &str, root: &Path) -> Vec<String> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(rename = "Name")]
        name: String,
    }
    let is_named = |path: &Path| {
        let config: Option<Config> = json(&path.join("config.v2.json"));
        config.is_some_and(|config| config.name.trim_start_matches('/') == name)
    };
    let containers = entries(root.join("var/lib/docker/containers"));
    containers.filter(|(_, path)| is_named(path)).map(|(id, _)| id).collect()
}

fn podman(name: &str, root: &Path) -> Vec<String> {
    #[derive(Deserialize)]
    struct Container {
        id: String,
        #[serde(default)]
        names: Vec<String>,
    }
    let homes = entries(root.join("home")).map(|(_, home)| home).chain([root.join("root")]);
    let stores = homes.map(|home| home.join(".local/share")).chain([root.join("var/lib")]);
    let drivers = stores.flat_map(|store| entries(store.join("containers/storage")));
    let drivers = drivers.filter(|(driver, _)| driver.ends_with("-containers"));
    let containers = drivers.filter_map(|(_, path)| json::<Vec<Container>>(&path.join("containers.json")));
    let named = containers.flatten().filter(|container| container.names.iter().any(|known| known == name));
    named.map(|container| container.id).collect()
}

fn nerdctl(name: &str, root: &Path) -> Vec<String> {
    let stores = entries(root.join("var/lib/nerdctl"));
    let namespaces = stores.flat_map(|(_, store)| entries(store.join("names")));
    // A name with a slash would lead elsewhere.
    let files = namespaces.flat_map(|(_, namespace)| entries(namespace)).filter(|(known, _)| known == name);
    files.filter_map(|(_, path)| Some(fs::read_to_string(path).ok()?.trim().to_string())).collect()
}

/// Whether a user's words, with slashes between them, are the last of these names.
fn are_last(text: &str, names: &[&str]) -> bool {
    let words: Vec<&str> = text.split('/').collect();
    names.ends_with(&words)
}

fn kubernetes_containers(text: &str, root: &Path) -> Vec<String> {
    let id_of = |file: &str| {
        let (names, id) = file.strip_suffix(".log")?.rsplit_once('-')?;
        let [pod, namespace, container] = names.split('_').collect::<Vec<_>>().try_into().ok()?;
        let is_meant = text.contains('/') && are_last(text, &[namespace, pod, container]);
        is_meant.then(|| id.to_string())
    };
    entries(root.join("var/log/containers")).filter_map(|(file, _)| id_of(&file)).collect()
}

fn kubernetes_pods(text: &str, root: &Path) -> Vec<String> {
    let uid_of = |folder: &str| {
        let [namespace, pod, uid] = folder.split('_').collect::<Vec<_>>().try_into().ok()?;
        are_last(text, &[namespace, pod]).then(|| uid.to_string())
    };
    entries(root.join("var/log/pods")).filter_map(|(folder, _)| uid_of(&folder)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_checks::trying;

    fn write(root: &Path, path: &str, contents: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    fn id(first: &str) -> String {
        format!("{first:0<64}")
    }

    #[test]
    fn a_name_leads_to_the_id_that_its_engine_has() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let [docker, podman, own, nerdctl, first, second] = ["a1", "b1", "b2", "c1", "d1", "d2"].map(id);
        write(
            root,
            &format!("var/lib/docker/containers/{docker}/config.v2.json"),
            r#"{"State": {"Running": true}, "Name": "/web"}"#,
        );
        write(root, "var/lib/docker/containers/broken/config.v2.json", "{");
        let listed = |id: &str, name: &str| format!(r#"[{{"id": "{id}", "names": ["{name}"]}}]"#);
        let file = "containers/storage/overlay-containers/containers.json";
        write(root, &format!("var/lib/{file}"), &listed(&podman, "db"));
        write(root, &format!("home/ann/.local/share/{file}"), &listed(&own, "web"));
        write(root, "var/lib/nerdctl/1935db59/names/default/cache", &format!("{nerdctl}\n"));
        for (container, id) in [("main", &first), ("side-car", &second)] {
            write(root, &format!("var/log/containers/shop-0_prod_{container}-{id}.log"), "");
        }
        for pod in ["prod_shop-0_11-22", "test_shop-0_33-44"] {
            fs::create_dir_all(root.join("var/log/pods").join(pod)).unwrap();
        }
        let pods = ["11-22", "33-44"].map(|uid| Meant::Pod(uid.to_string()));
        let container = |id: &String| Meant::Container(id.clone());
        for (text, meant) in [
            ("web", vec![container(&docker), container(&own)]),
            ("db", vec![container(&podman)]),
            ("cache", vec![container(&nerdctl)]),
            ("shop-0/main", vec![container(&first)]),
            ("prod/shop-0/side-car", vec![container(&second)]),
            ("prod/shop-0", vec![pods[0].clone()]),
            ("main", vec![]),
            ("op-0/main", vec![]),
            ("../default/cache", vec![]),
            ("", vec![]),
            ("ABCDEF012345", vec![Meant::Container("abcdef012345".to_string())]),
            ("abcdef01234", vec![]),
        ] {
            let _input = trying(|| text.to_owned());
            assert_eq!(meant_by(text, root), meant);
        }
        let mut both = meant_by("shop-0", root);
        both.sort_by_key(|meant| format!("{meant:?}"));
        assert_eq!(both, pods);
    }

    #[test]
    fn cgroups_have_the_id_or_the_pod_in_their_names() {
        let container = Meant::Container(id("a1"));
        let pod = Meant::Pod("0f1e-22".to_string());
        for (meant, name, is_it) in [
            (&container, id("a1"), true),
            (&container, format!("docker-{}.scope", id("a1")), true),
            (&container, format!("crio-{}", id("a1")), true),
            (&container, format!("libpod-conmon-{}.scope", id("a1")), false),
            (&container, format!("docker-{}.scope", id("a2")), false),
            (&pod, "pod0f1e-22".to_string(), true),
            (&pod, "kubepods-burstable-pod0f1e_22.slice".to_string(), true),
            (&pod, "kubepods-pod0f1e_22.slice".to_string(), true),
            (&pod, "kubepods-pod0f1e_223.slice".to_string(), false),
            (&pod, "kubepods.slice".to_string(), false),
        ] {
            let _input = trying(|| name.clone());
            assert_eq!(meant.is_cgroup(&name), is_it);
        }
    }
}
