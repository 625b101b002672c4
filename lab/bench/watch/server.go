// A server with its memory full of values, and clients for it and for others that speak HTTP.
//
//	server serve PLACE VALUES           a value of 1 KiB for each key
//	server ask PLACE KEYS SECONDS       eight clients ask for values of the first keys
//
// PLACE is unix:PATH or tcp:ADDRESS. The clients print now and then when it is, in nanoseconds, and
// how many answers they have got, and fail if one is wrong.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const clients = 8

func value(key int) []byte {
	return []byte(strings.Repeat(fmt.Sprintf("%08d", key), 128))
}

func serve(network, address string, count int) error {
	values := make(map[int][]byte, count)
	for key := 0; key < count; key++ {
		values[key] = value(key)
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return http.Serve(listener, http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		key, err := strconv.Atoi(in.URL.Path[1:])
		if found, known := values[key]; err == nil && known {
			out.Write(found)
			return
		}
		http.NotFound(out, in)
	}))
}

func ask(network, address string, keys int, duration time.Duration) error {
	dial := func(_ context.Context, _, _ string) (net.Conn, error) { return net.Dial(network, address) }
	client := http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: clients}}
	var answers atomic.Int64
	var failed atomic.Value
	var all sync.WaitGroup
	began := time.Now()
	for number := 0; number < clients; number++ {
		all.Add(1)
		go func(state uint64) {
			defer all.Done()
			for time.Since(began) < duration && failed.Load() == nil {
				state ^= state << 13
				state ^= state >> 7
				state ^= state << 17
				key := int(state % uint64(keys))
				answer, err := client.Get(fmt.Sprintf("http://server/%d", key))
				if err == nil {
					var body []byte
					body, err = io.ReadAll(answer.Body)
					answer.Body.Close()
					if err == nil && string(body) != string(value(key)) {
						err = fmt.Errorf("key %d has another value", key)
					}
				}
				if err != nil {
					failed.Store(err)
					return
				}
				answers.Add(1)
			}
		}(uint64(number + 1))
	}
	over := make(chan bool)
	go func() {
		all.Wait()
		close(over)
	}()
	for ticks := time.Tick(20 * time.Millisecond); ; {
		select {
		case now := <-ticks:
			fmt.Println(now.UnixNano(), answers.Load())
			continue
		case <-over:
		}
		break
	}
	if err, has := failed.Load().(error); has {
		return err
	}
	return nil
}

func main() {
	network, address, _ := strings.Cut(os.Args[2], ":")
	count, err := strconv.Atoi(os.Args[3])
	if err == nil && os.Args[1] == "serve" {
		err = serve(network, address, count)
	} else if err == nil {
		var seconds float64
		seconds, err = strconv.ParseFloat(os.Args[4], 64)
		if err == nil {
			err = ask(network, address, count, time.Duration(seconds*float64(time.Second)))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
