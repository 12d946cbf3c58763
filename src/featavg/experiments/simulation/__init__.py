"""`featavg simulate`: a Setting, its presets, its run and its result folder."""
