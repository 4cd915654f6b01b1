package cache

import (
	"fmt"
	"sync"
	"testing"
)

func TestCacheIsBoundedAndKeepsWhatIsAskedFor(t *testing.T) {
	c := New[int, string](100)
	c.Put(0, "asked for", 10)
	for i := 1; i < 1000; i++ {
		c.Put(i, fmt.Sprint(i), 10)
		if v, ok := c.Get(0); !ok || v != "asked for" {
			t.Fatalf("gone after %d others", i)
		}
		if c.used > c.max || len(c.entries) > 10 {
			t.Fatalf("holds %d in %d entries", c.used, len(c.entries))
		}
	}
}

func TestCachePutAgain(t *testing.T) {
	c := New[string, int](10)
	c.Put("a", 1, 4)
	c.Put("a", 2, 6)
	if v, _ := c.Get("a"); v != 2 || c.used != 6 {
		t.Errorf("got %d, used %d", v, c.used)
	}
	c.Put("a", 3, 11)
	if _, ok := c.Get("a"); ok || c.used != 0 {
		t.Errorf("something larger than the cache is kept, used %d", c.used)
	}
}

func TestCacheForgets(t *testing.T) {
	c := New[string, int](10)
	c.Put("a", 1, 1)
	c.Forget("a")
	if _, ok := c.Get("a"); ok || c.used != 0 || c.order.Len() != 0 {
		t.Error("it is still there")
	}
}

func TestCacheConcurrently(t *testing.T) {
	c := New[int, int](50)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 5000 {
				k := (i*7 + g) % 100
				c.Put(k, k, int64(k%5+1))
				if v, ok := c.Get(k); ok && v != k {
					t.Errorf("key %d has %d", k, v)
				}
				if i%9 == 0 {
					c.Forget(k)
				}
			}
		})
	}
	wg.Wait()
	n := int64(0)
	for at := c.order.Front(); at != nil; at = at.Next() {
		e := at.Value.(*entry[int, int])
		n += e.weight
		if c.entries[e.key] != e || e.place != at {
			t.Fatal("the list and the map differ")
		}
	}
	if c.order.Len() != len(c.entries) {
		t.Errorf("%d in the list, %d in the map", c.order.Len(), len(c.entries))
	}
	if n != c.used {
		t.Errorf("used %d, but the entries weigh %d", c.used, n)
	}
}
