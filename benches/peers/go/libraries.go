package main

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const lease = 30 * time.Second

// A locker waits for a name for as long as others hold it, and answers with what releases it.
type locker func(ctx context.Context, name string) (release func() error, err error)

func connectTo(library, address string) locker {
	switch library {
	case "redsync":
		return byRedsync(redis.NewClient(&redis.Options{Addr: address}))
	case "redislock":
		return byRedislock(redis.NewClient(&redis.Options{Addr: address}))
	case "rueidislock":
		return byRueidislock(address)
	default:
		log.Fatalf("no such library: %s", library)
		return nil
	}
}

func byRedsync(client *redis.Client) locker {
	locks := redsync.New(goredis.NewPool(client))
	return func(ctx context.Context, name string) (func() error, error) {
		mutex := locks.NewMutex(name, redsync.WithExpiry(lease))
		// It gives up after 32 tries.
		var taken *redsync.ErrTaken
		err := mutex.LockContext(ctx)
		for ctx.Err() == nil && (errors.Is(err, redsync.ErrFailed) || errors.As(err, &taken)) {
			err = mutex.LockContext(ctx)
		}
		return func() error {
			_, err := mutex.UnlockContext(context.Background())
			return err
		}, err
	}
}

func byRedislock(client *redis.Client) locker {
	locks := redislock.New(client)
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	return func(ctx context.Context, name string) (func() error, error) {
		// It gives up after the time of the lease.
		lock, err := locks.Obtain(ctx, name, lease, options)
		for ctx.Err() == nil && errors.Is(err, redislock.ErrNotObtained) {
			lock, err = locks.Obtain(ctx, name, lease, options)
		}
		return func() error { return lock.Release(context.Background()) }, err
	}
}

func byRueidislock(address string) locker {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{address}},
		KeyMajority:    1,
		NoLoopTracking: true,
		// An attempt that takes longer is given up, by default after 20 ms, and then waits for a message. On a busy machine none comes,
		// because the key is deleted by this client itself.
		TryNextAfter: 10 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	return func(ctx context.Context, name string) (func() error, error) {
		_, release, err := locks.WithContext(ctx, name)
		return func() error {
			// It returns when the key is deleted.
			release()
			return nil
		}, err
	}
}
