package pubsubio

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// A WatermarkState is what a registered watermark function decides from. Times
// are event times: the publish time, or the time in TimestampAttribute.
type WatermarkState struct {
	// Now is the worker's clock.
	Now time.Time
	// Previous is the last watermark of this reader; the zero time at first.
	Previous time.Time
	// Newest is the newest time emitted so far; the zero time before the first.
	Newest time.Time
	// OldestHeld is the oldest time of a message received and not emitted, or
	// given back and expected again; the zero time where there is none.
	OldestHeld time.Time
	// Idle is how long no message has arrived.
	Idle time.Duration
}

var watermarkRegistry struct {
	sync.Mutex
	fns map[string]func(WatermarkState) time.Time
}

// RegisterWatermarkFunc makes a function known under a name, for WatermarkFunc.
// Call it from init, in the program that runs on the workers too: a pipeline
// carries the name only. The function must be fast and must not block; a
// watermark that goes backwards is ignored. It panics when the name is empty or
// taken.
func RegisterWatermarkFunc(name string, f func(WatermarkState) time.Time) {
	watermarkRegistry.Lock()
	defer watermarkRegistry.Unlock()
	if _, taken := watermarkRegistry.fns[name]; taken || name == "" || f == nil {
		panic(fmt.Sprintf("pubsubio: registering watermark function %q: empty, nil or registered twice", name))
	}
	if watermarkRegistry.fns == nil {
		watermarkRegistry.fns = map[string]func(WatermarkState) time.Time{}
	}
	watermarkRegistry.fns[name] = f
}

// watermarkFunc returns the function of a name.
func watermarkFunc(name string) (func(WatermarkState) time.Time, error) {
	watermarkRegistry.Lock()
	defer watermarkRegistry.Unlock()
	f, ok := watermarkRegistry.fns[name]
	if !ok {
		return nil, fmt.Errorf("names no function registered with RegisterWatermarkFunc")
	}
	return f, nil
}

// watermarkFuncs returns the names registered, sorted.
func watermarkFuncs() []string {
	watermarkRegistry.Lock()
	defer watermarkRegistry.Unlock()
	return slices.Sorted(maps.Keys(watermarkRegistry.fns))
}
