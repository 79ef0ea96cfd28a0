//! smoke
use leasehold::embedded::EmbeddedServer;
use leasehold::{Client, Error};
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = EmbeddedServer::new();
    let lease = Duration::from_millis(300);
    let (a, b) = match std::env::var("LEASEHOLD_URL") {
        Ok(url) => {
            (Client::builder().lease(lease).connect(&url).await?, Client::builder().lease(lease).connect(&url).await?)
        }
        Err(_) => {
            (Client::builder().lease(lease).embedded(&server)?, Client::builder().lease(lease).embedded(&server)?)
        }
    };
    let la = a.lock("stock:1001");
    let lb = b.lock("stock:1001");
    let g = la.acquire().await?;
    eprintln!("held {g:?}");
    let g2 = g.reenter().await?;
    eprintln!("held {g2:?} {}", g2.hold_count());
    g2.release().await?;
    eprintln!("held {g:?} {}", g.hold_count());
    let waiter = tokio::spawn(async move {
        let t = Instant::now();
        let g = lb.acquire().await?;
        eprintln!("b in after {:?}", t.elapsed());
        g.release().await?;
        Ok::<_, Error>(Instant::now())
    });
    tokio::time::sleep(lease * 4).await;
    eprintln!("still {}", g.is_held());
    eprintln!("{:?}", a.lock("stock:1001").inspect().await?);
    let t = Instant::now();
    g.release().await?;
    let at = waiter.await??;
    eprintln!("handed over in {:?}", at - t);
    eprintln!("{:?}\n{:?}", a.census(), b.census());
    a.shutdown(Duration::from_secs(1)).await?;
    b.shutdown(Duration::from_secs(1)).await?;
    eprintln!("{:?}", a.lock("x").try_acquire().await);
    Ok(())
}
