// Peers does the work of a benchmark with one of three Go libraries, as `cargo xtask bench` tells it.
//
// Its words are the library and the URL of the server. It says `ready`, and then reads one task a line and answers with one line;
// benches/README.md has the tasks. All libraries run with their defaults, on one client with its default pool; an interval of polling
// that a library leaves to its caller is that of the example in its README.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: peers library redis://host:port")
	}
	connect := func() locker { return connectTo(os.Args[1], strings.TrimPrefix(os.Args[2], "redis://")) }
	here := connect()
	fmt.Println("ready")
	tasks := bufio.NewScanner(os.Stdin)
	for tasks.Scan() {
		words := strings.Fields(tasks.Text())
		fmt.Println("ok", do(connect, here, words))
	}
}

// do does one task, and answers with the figures.
func do(connect func() locker, here locker, words []string) string {
	switch words[0] {
	case "pairs":
		return pairs(here, words[1], number(words[2]), millis(words[3]))
	case "wake":
		return wakeUps(here, connect(), words[1], number(words[2]), micros(words[3]), micros(words[4]))
	case "hot":
		return hot(here, words[1], number(words[2]), time.UnixMilli(int64(number(words[3]))), millis(words[4]))
	case "hold":
		return hold(here, words[1], number(words[2]))
	case "wait":
		return wait(here, connect(), words[1], number(words[2]))
	default:
		log.Fatalf("no such task: %v", words)
		return ""
	}
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func millis(word string) time.Duration { return time.Duration(number(word)) * time.Millisecond }

func micros(word string) time.Duration { return time.Duration(number(word)) * time.Microsecond }

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
