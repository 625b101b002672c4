//! Enumerations whose members travel as numbers between the command, the agent and the program.

/// Defines an enumeration by its members and their numbers, with the way back from a number.
#[macro_export]
macro_rules! numbered {
    (
        $(#[$of_all:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$of_one:meta])* $member:ident = $number:literal,)*
        }
    ) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u32)]
        $visibility enum $name {
            $($(#[$of_one])* $member = $number,)*
        }

        impl $name {
            /// The member with this number.
            $visibility fn of(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$member),)*
                    _ => None,
                }
            }
        }
    };
}
