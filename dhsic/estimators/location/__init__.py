"""The statistic at a few optimised locations: NFSIC."""
