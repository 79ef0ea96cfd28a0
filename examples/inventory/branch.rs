//! A branch for buyers: a client in this process, or a process with its own client.

use super::buyer::{Fate, Sale, Way};
use super::store::{Failed, Store};
use super::support::{Place, Stage};
use leasehold::Client;
use leasehold::embedded::EmbeddedLink;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

/// Environment variables that describe the sale to a branch process: lock, prefix and name.
const ROLE: [&str; 3] = ["LEASEHOLD_EXAMPLE_WAY", "LEASEHOLD_EXAMPLE_PREFIX", "LEASEHOLD_EXAMPLE_SALE"];

/// The lease, which bounds the delay after a holder's death.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// A client of buyers.
pub(crate) enum Branch {
    Here(Here),
    Process(Box<Process>),
}

impl Branch {
    /// Opens a branch: a client of the in-process engine, or a process for a server.
    pub(crate) async fn open(stage: &Stage, sale: &Sale) -> Result<Self, Failed> {
        match &stage.place {
            Place::Process(server) => {
                let link = server.link();
                let client = stage.builder().lease(LEASE).embedded_link(link.clone())?;
                Ok(Self::Here(Here { link, hall: Hall::new(client, sale.clone()) }))
            }
            Place::Server(_) => Ok(Self::Process(Box::new(Process::start(sale).await?))),
        }
    }

    /// Admits a buyer. Returns after the buyer's request.
    pub(crate) async fn admit(&mut self, buyer: usize, fate: Fate) -> Result<(), Failed> {
        match self {
            Self::Here(here) => here.hall.admit(buyer, fate).await,
            Self::Process(process) => {
                process.order(&format!("admit {buyer} {}", fate.word())).await?;
                process.hear("asked").await
            }
        }
    }

    /// Opens the doors, for which the buyers of a sale without a lock wait.
    pub(crate) async fn open_doors(&mut self) -> Result<(), Failed> {
        match self {
            Self::Here(here) => {
                here.hall.open_doors();
                Ok(())
            }
            Self::Process(process) => process.order("doors").await,
        }
    }

    /// Waits until the buyer that stops in its turn has stopped.
    pub(crate) async fn holds(&mut self) -> Result<(), Failed> {
        match self {
            Self::Here(here) => here.hall.holds().await,
            Self::Process(process) => {
                process.order("holds").await?;
                process.hear("holds").await
            }
        }
    }

    /// Kills the client without a cleanup: kills its process, or disconnects it from the in-process engine.
    pub(crate) fn kill(&mut self) -> Result<(), Failed> {
        match self {
            Self::Here(here) => {
                here.link.set_down(true);
                here.hall.buyers.abort_all();
                Ok(())
            }
            // Send SIGKILL.
            Self::Process(process) => Ok(process.child.start_kill()?),
        }
    }

    /// Waits for the turns of all buyers, and ends the client.
    pub(crate) async fn close(self) -> Result<(), Failed> {
        match self {
            Self::Here(here) => here.hall.close().await,
            Self::Process(mut process) => {
                process.order("close").await?;
                process.hear("closed").await?;
                let status = process.child.wait().await?;
                if status.success() { Ok(()) } else { Err(format!("a branch process ended with {status}").into()) }
            }
        }
    }
}

/// A client of this process with breakable connections.
pub(crate) struct Here {
    link: EmbeddedLink,
    hall: Hall,
}

/// The buyers of one client.
struct Hall {
    client: Client,
    sale: Sale,
    doors: watch::Sender<bool>,
    buyers: JoinSet<Result<(), Failed>>,
    holds: Option<oneshot::Receiver<()>>,
}

impl Hall {
    fn new(client: Client, sale: Sale) -> Self {
        Self { client, sale, doors: watch::Sender::new(false), buyers: JoinSet::new(), holds: None }
    }

    async fn admit(&mut self, buyer: usize, fate: Fate) -> Result<(), Failed> {
        let (asked, has_asked) = oneshot::channel();
        let (holds, it_holds) = oneshot::channel();
        if fate != Fate::Lives {
            self.holds = Some(it_holds);
        }
        let (client, sale, doors) = (self.client.clone(), self.sale.clone(), self.doors.subscribe());
        self.buyers.spawn(async move { sale.buy(&client, buyer, fate, asked, doors, holds).await });
        Ok(has_asked.await?)
    }

    fn open_doors(&self) {
        self.doors.send_replace(true);
    }

    async fn holds(&mut self) -> Result<(), Failed> {
        Ok(self.holds.take().ok_or("no buyer of this branch stops in its turn")?.await?)
    }

    async fn close(mut self) -> Result<(), Failed> {
        while let Some(bought) = self.buyers.join_next().await {
            bought??;
        }
        Ok(self.client.shutdown(Duration::from_secs(5)).await?)
    }
}

/// A branch process. Reads commands from stdin line by line, and confirms each command with a line on stdout. Ends at
/// the end of stdin, and therefore with its parent process.
pub(crate) struct Process {
    child: Child,
    orders: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    async fn start(sale: &Sale) -> Result<Self, Failed> {
        let mut child = Command::new(std::env::current_exe()?)
            .envs(ROLE.into_iter().zip([sale.way.word(), &sale.prefix, &sale.name]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = child.stdin.take().ok_or("stdin is not piped")?;
        let said = BufReader::new(child.stdout.take().ok_or("stdout is not piped")?).lines();
        let mut process = Self { child, orders, said };
        process.hear("ready").await?;
        Ok(process)
    }

    async fn order(&mut self, order: &str) -> Result<(), Failed> {
        Ok(self.orders.write_all(format!("{order}\n").as_bytes()).await?)
    }

    async fn hear(&mut self, word: &str) -> Result<(), Failed> {
        match self.said.next_line().await? {
            Some(said) if said == word => Ok(()),
            Some(said) => Err(format!("a branch process printed {said:?} instead of {word:?}").into()),
            None => Err(format!("a branch process ended before it printed {word:?}").into()),
        }
    }
}

/// Returns the sale if the example started this process as a branch.
pub(crate) fn role() -> Option<[String; 3]> {
    let [way, prefix, sale] = ROLE.map(|variable| std::env::var(variable).ok());
    Some([way?, prefix?, sale?])
}

/// Runs a branch in its own process.
pub(crate) async fn obey([way, prefix, name]: [String; 3]) -> Result<(), Failed> {
    let url = std::env::var("LEASEHOLD_URL")?;
    let way = Way::parse(&way).ok_or("unknown kind of sale")?;
    let store = Store::connect(&url).await?;
    let client = Client::builder().prefix(&prefix).lease(LEASE).connect(&url).await?;
    let mut hall = Hall::new(client, Sale { way, prefix, name, store });
    let mut orders = orders();
    println!("ready");
    while let Some(order) = orders.recv().await {
        match order.split(' ').collect::<Vec<_>>()[..] {
            ["admit", buyer, fate] => {
                hall.admit(buyer.parse()?, Fate::parse(fate).ok_or("unknown fate")?).await?;
                println!("asked");
            }
            ["doors"] => hall.open_doors(),
            ["holds"] => {
                hall.holds().await?;
                println!("holds");
            }
            ["close"] => {
                hall.close().await?;
                println!("closed");
                break;
            }
            _ => return Err(format!("unknown command: {order:?}").into()),
        }
    }
    Ok(())
}

/// Starts reading stdin, and returns its lines. If stdin ends before the command to close, the parent is gone, and the
/// process ends at once.
fn orders() -> mpsc::UnboundedReceiver<String> {
    let (given, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _ = given.send(line);
        }
        std::process::exit(1);
    });
    orders
}
