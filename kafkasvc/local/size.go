package local

// DiskBytes is what the store takes on its disk now, or in memory where that is its disk; 0 while it cannot be asked.
func (s *Store) DiskBytes() uint64 {
	db, release, err := s.use(0)
	if err != nil {
		return 0
	}
	defer release()
	return db.Metrics().DiskSpaceUsage()
}
