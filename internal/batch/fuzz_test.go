package batch

import "testing"

func FuzzDecode(f *testing.F) {
	b, err := Encode(Chunk[row]{Destination: "d", Items: []Item[row]{{Value: row{Name: "n"}, Time: 1, Bytes: 2}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = Decode[row](b) // must not panic, nor take memory for what is not there
	})
}
