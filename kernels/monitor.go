package kernels

// Monitored is a device whose hardware can tell how it does.
type Monitored interface {
	// Monitor begins to read. It is nil where there is no hardware that could tell; an error says why hardware does not.
	Monitor() (Monitor, error)
}

// A Monitor reads how the hardware of a device does. Reading waits for nothing that the device computes, and may be done on
// any goroutine, one at a time. What the hardware does not tell is NaN.
type Monitor interface {
	Gauges() Gauges
	Counters() Counters
	Close()
}

// Gauges are what hardware tells of this moment.
type Gauges struct {
	Power       float64 // W
	Clock       float64 // MHz, of what computes
	MemoryClock float64 // MHz
	Temperature float64 // °C
	Memory      float64 // bytes in use, by whatever process
	Held        Holds
	HeldKnown   bool
}

// Counters are what hardware counts up, from some moment in the past.
type Counters struct {
	Energy      float64 // J
	Uncorrected float64 // memory errors that changed bits
	Corrected   float64 // memory errors that did not
}

// Holds are the reasons, several at a time, why hardware is slower than it can be. That it has nothing to do is none.
type Holds uint8

// The reasons.
const (
	HeldByPower    Holds = 1 << iota // what it may draw
	HeldByHeat                       //
	HeldByHardware                   // a circuit that slows it down to protect it, from heat or want of power as a rule
	HeldByOthers                     // settings, other cards
)

// Metered is a device that tells what its memory has gone to.
type Metered interface {
	Usage() (Usage, error)
}

// Usage is what a device's memory has gone to, in bytes.
type Usage struct {
	Free   int  // left for who asks first
	Taken  int  // by Alloc
	Beyond int  // for us as well, by the device itself: its context, code, recorded steps, stacks, what it rounds up
	Exact  bool // Beyond is known; else it is what is gone since the device was opened, with the share of others and without the context
}

// Ours is what there is for us: free, or gone to us.
func (u Usage) Ours() int { return u.Free + u.Taken + u.Beyond }
