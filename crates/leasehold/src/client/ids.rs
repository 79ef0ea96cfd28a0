//! The ids of clients and holders, here and on the server.

use leasehold_core::command::permits::PermitId;
use std::borrow::Borrow;
use std::fmt;

macro_rules! name_of {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(transparent))]
        pub struct $name(String);

        impl $name {
            /// Returns the text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Converts into the text of the id.
            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<String> for $name {
            fn eq(&self, other: &String) -> bool {
                self.0 == *other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }
    };
}

name_of! {
    /// The id of a holder or a waiter on the server: `uuid:number`, where the UUID is that of a [client](ClientId); a JVM's `uuid:thread`; or the
    /// id from [`SimpleLock::with_id`](crate::SimpleLock::with_id).
    ///
    /// `From` converts any text into an id, because other libraries choose their own ids.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::HolderId;
    ///
    /// let id = HolderId::from("6f0c0000-0000-4000-8000-000000000000:7");
    /// assert_eq!(id, "6f0c0000-0000-4000-8000-000000000000:7");
    /// assert_eq!(id.to_string(), id.as_str());
    /// ```
    HolderId
}

impl HolderId {
    /// Returns `true` if this is the id of a hold of `client`.
    pub fn is_of(&self, client: &ClientId) -> bool {
        self.0.strip_prefix(client.as_str()).is_some_and(|rest| rest.starts_with(':'))
    }

    /// Returns `true` if this hold acquired the permit of a [`Semaphore`](crate::Semaphore). The ids of its permits derive from the id of the hold; the
    /// ids of a JVM's permits are random.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let supplier = client.semaphore("supplier");
    /// supplier.try_set_permits(3).await?;
    /// let (one, other) = (supplier.acquire().await?, supplier.acquire().await?);
    /// let permit = supplier.inspect().await?.expect("a semaphore").permits[0].id;
    /// assert!(one.holder_id().has_permit(permit) != other.holder_id().has_permit(permit));
    /// # one.release().await?;
    /// # other.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub fn has_permit(&self, permit: PermitId) -> bool {
        permit.is_of(self.0.as_bytes())
    }
}

name_of! {
    /// The identity of a client: a random UUID, new for every client, like the id of a Redisson instance. The ids of its holds start with it.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let guard = client.lock("stock:1001").acquire().await?;
    /// assert!(guard.holder_id().is_of(&client.id()));
    /// # guard.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    ClientId
}
