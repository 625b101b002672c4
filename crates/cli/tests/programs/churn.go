// Sequential and random reads and writes over more memory than there is, from several goroutines,
// with a collector that looks through memory meanwhile: churn MIB ROUNDS. Built without cgo, it has
// no C library and makes its own system calls.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
)

const page = 4096

func word(page, version, index int) uint64 {
	mixed := uint64(page)*0x9e3779b97f4a7c15 + uint64(version)*0xbf58476d1ce4e5b9 + uint64(index) + 1
	mixed ^= mixed >> 31
	return mixed * 0x94d049bb133111eb
}

func fill(memory []byte, number, version int) {
	for at := 0; at < page; at += 8 {
		binary.LittleEndian.PutUint64(memory[at:], word(number, version, at))
	}
}

func verify(memory []byte, number, version int) {
	for at := 0; at < page; at += 8 {
		if found := binary.LittleEndian.Uint64(memory[at:]); found != word(number, version, at) {
			fmt.Printf("page %d version %d byte %d: %x\n", number, version, at, found)
			os.Exit(3)
		}
	}
}

func main() {
	mib, _ := strconv.Atoi(os.Args[1])
	rounds, _ := strconv.Atoi(os.Args[2])
	const workers = 4
	var all sync.WaitGroup
	for worker := 0; worker < workers; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			pages := make([]*[page]byte, mib*256/workers)
			versions := make([]int, len(pages))
			for index := range pages {
				pages[index] = new([page]byte)
				fill(pages[index][:], worker<<32+index, 0)
			}
			for round := 0; round < rounds; round++ {
				for step := range pages {
					index := step
					if round%2 == 1 {
						index = step * 7919 % len(pages)
					}
					verify(pages[index][:], worker<<32+index, versions[index])
					versions[index]++
					// Now and then in new memory: the old is for the collector.
					if step%8 == 0 {
						pages[index] = new([page]byte)
					}
					fill(pages[index][:], worker<<32+index, versions[index])
				}
				runtime.GC()
			}
			for index := range pages {
				verify(pages[index][:], worker<<32+index, versions[index])
			}
		}()
	}
	all.Wait()
	fmt.Println("right")
}
