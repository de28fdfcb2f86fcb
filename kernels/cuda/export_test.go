package cuda

// SetOwn sets what of the card is this process's, which no library tells of a card that is none.
func (d *Device) SetOwn(own func() (bytes int, ok bool)) { d.own = own }
